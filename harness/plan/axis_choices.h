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

/// Every combination of the values, the last axis running fastest. No axis: one empty choice.
std::vector<Choice> all_choices(const std::vector<AxisRange>& axes);

/// How many `all_choices` are; the largest number where they are more than it holds.
std::size_t count_choices(const std::vector<AxisRange>& axes);

/// A small set of choices in which every pair of values of any two axes occurs. Deterministic; for
/// two axes it is every combination.
///
/// Source: the greedy construction of Cohen, Dalal, Fredman and Patton, "The AETG system" (1997),
/// without its random candidates.
std::vector<Choice> pairwise_choices(const std::vector<AxisRange>& axes);

/// Why a choice cannot be run; empty: it can. A pure function.
using Obstacle = std::function<std::string(const Choice&)>;

/// Choices in which every pair occurs that can.
struct PairwiseChoices {
  std::vector<Choice> choices;
  /// Pairs of which no choice was found that can be run; 0 where nothing can. The search is
  /// bounded: it looks at choices that differ from a good one on up to two more axes, and at all
  /// others where they are few, else at a sample.
  std::size_t uncovered = 0;
};

/// The same where some choices cannot be run: their pairs are covered by others. Behind those that
/// can stands one that cannot for each reason met.
PairwiseChoices pairwise_choices(const std::vector<AxisRange>& axes, const Obstacle& obstacle);

}  // namespace lockstep
