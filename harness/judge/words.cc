#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/judge/predicates.h"

namespace lockstep {

std::string number(double value) { return fmt::format("{:.6g}", value); }

std::string shape_in_words(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string groups_in_words(const std::vector<std::vector<int>>& groups) {
  const bool all_alone = std::all_of(groups.begin(), groups.end(),
                                     [](const auto& group) { return group.size() == 1; });
  if (all_alone && groups.size() == 2) {
    return fmt::format("ranks {} and {} differ", groups[0][0], groups[1][0]);
  }
  if (all_alone) return fmt::format("all {} ranks differ from each other", groups.size());
  std::vector<std::string> parts;
  for (const auto& group : groups) {
    parts.push_back(fmt::format(
        "{}{}", fmt::join(group, ","),
        group.size() > 1 ? (parts.empty() ? " agree" : " agree with each other") : " differs"));
  }
  return fmt::format("ranks {}", fmt::join(parts, "; "));
}

std::string element_in_words(const ElementDifference& difference) {
  const std::string distance =
      difference.ulp_distance ? fmt::format("; {} ULP apart", *difference.ulp_distance) : "";
  const auto place = [](const std::string& holder) {
    return (holder == kReference ? "in " : "on ") + holder;
  };
  return fmt::format(
      "element [{}] is {} {} and {} {} ({}, {}{})", fmt::join(difference.index, ", "),
      number(difference.left_value), place(difference.left), number(difference.right_value),
      place(difference.right), difference.left_bits, difference.right_bits, distance);
}

}  // namespace lockstep
