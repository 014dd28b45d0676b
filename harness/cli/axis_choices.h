#pragma once

#include <string>
#include <vector>

#include "reports/cell.h"

namespace lockstep {

/// The values that an axis may take in a run.
struct AxisRange {
  std::string axis;
  std::vector<std::string> values;  ///< not empty
};

/// One value on every axis, in the order of the axes.
using Choice = std::vector<AxisValue>;

/// Every combination of the values, the last axis running fastest. No axis: one empty choice.
std::vector<Choice> all_choices(const std::vector<AxisRange>& axes);

/// A small set of choices in which every pair of values of any two axes occurs. Deterministic; for
/// two axes it is every combination.
///
/// Source: the greedy construction of Cohen, Dalal, Fredman and Patton, "The AETG system" (1997),
/// without its random candidates.
std::vector<Choice> pairwise_choices(const std::vector<AxisRange>& axes);

}  // namespace lockstep
