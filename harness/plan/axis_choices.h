#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reports/record/cell.h"

namespace lockstep {

/// The values that an axis may take in a run.
struct AxisRange {
  std::string axis;
  std::vector<std::string> values;  ///< not empty
  std::string default_value;        ///< need not be among `values`
};

/// One value on every axis, in the order of the axes.
using Choice = std::vector<AxisValue>;

/// Every combination of the values; the last axis varies fastest. Without axes: one empty choice.
std::vector<Choice> all_choices(const std::vector<AxisRange>& axes);

/// The size of `all_choices`, or the largest representable number if it is larger.
std::size_t count_choices(const std::vector<AxisRange>& axes);

/// A small set of choices in which every pair of values of any two axes occurs. Deterministic; for
/// two axes it is every combination.
///
/// Source: the greedy construction of Cohen, Dalal, Fredman and Patton, "The AETG system" (1997),
/// without its random candidates.
std::vector<Choice> pairwise_choices(const std::vector<AxisRange>& axes);

/// Why a choice cannot be run; empty: it can. A pure function.
using Obstacle = std::function<std::string(const Choice&)>;

/// Choices that cover every pair that can occur.
struct PairwiseChoices {
  std::vector<Choice> choices;
  /// Pairs for which no runnable choice was found; 0 if no choice at all is runnable. The search is
  /// bounded. It tries choices that differ from a good one on up to two more axes. It also tries
  /// all others if they are few, and a sample otherwise.
  std::size_t uncovered = 0;
};

/// The same if some choices cannot be run: other choices cover their pairs. The runnable choices
/// come first. Then follows one choice for each reason why a choice cannot be run.
PairwiseChoices pairwise_choices(const std::vector<AxisRange>& axes, const Obstacle& obstacle);

/// Selects one choice or more from every list. Together they have every axis value that occurs in
/// any list. An empty list stays empty.
std::vector<std::vector<Choice>> choices_of_each_value(std::vector<std::vector<Choice>> lists);

}  // namespace lockstep
