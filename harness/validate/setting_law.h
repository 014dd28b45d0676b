#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/validate/command_cells.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// A number that values are of the right ones, and its relative error.
struct MeasuredFactor {
  double factor = 1;
  double error = 0;
};

/// The simplest law that factors follow, such as "2/shards", "shards + 1" or "1/sqrt(shards)".
/// `by_value`: factors by the value of the setting. Empty: fewer than three values, all factors are
/// the same, or no simple law fits all of them.
std::string law_of(const std::string& setting, const std::map<double, MeasuredFactor>& by_value);

/// How gradients that are multiples of the right ones depend on a setting, where all other settings
/// of the matrix are the same: a sentence for each setting, and for each side of a fix. `cells` and
/// `comparisons` belong together by place; the last cells may have none.
std::vector<std::string> laws_in_words(const std::vector<CommandCell>& cells,
                                       const std::vector<Comparison>& comparisons);

}  // namespace lockstep
