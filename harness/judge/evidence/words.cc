#include "harness/judge/evidence/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

namespace {

std::string place_of(const std::string& holder) {
  return (holder == kReference ? "in " : "on ") + holder;
}

std::string state_of(const Observation& observation) {
  if (observation.not_comparable.empty()) return "has a value";
  return fmt::format("has no comparable value ({})", observation.not_comparable);
}

}  // namespace

std::string number(double value) { return fmt::format("{:.6g}", value); }

std::string incomparable_in_words(const ObservedTensor& tensor, std::int64_t step) {
  return fmt::format("{} in step {} cannot be compared: {}", tensor.name, step,
                     tensor.not_comparable);
}

std::string structural_difference(const Observation& a, const std::string& left,
                                  const Observation& b, const std::string& right) {
  const auto both = [&](const std::string& a_is, const std::string& b_is) {
    return fmt::format("it {} {} but {} {}", a_is, place_of(left), b_is, place_of(right));
  };
  if (a.not_comparable != b.not_comparable) return both(state_of(a), state_of(b));
  if (a.dtype != b.dtype) return both("is " + a.dtype, "is " + b.dtype);
  if (a.global_shape != b.global_shape) {
    return both("has the shape " + shape_in_words(a.global_shape),
                "has the shape " + shape_in_words(b.global_shape));
  }
  return "";
}

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
  if (groups.size() == 2 && groups[0].size() == 1) {
    return fmt::format("rank {} differs; ranks {} agree with each other", groups[0][0],
                       fmt::join(groups[1], ","));
  }
  std::vector<std::string> parts;
  for (const auto& group : groups) {
    parts.push_back(fmt::format(
        "{}{}", fmt::join(group, ","),
        group.size() > 1 ? (parts.empty() ? " agree" : " agree with each other") : " differs"));
  }
  return fmt::format("ranks {}", fmt::join(parts, "; "));
}

std::string missing_in_reference(const CellEvidence& cell, const Observation& actual) {
  const std::optional<RankExit>& end = cell.reference_exit;
  const bool is_known = end && end->kind != ExitKind::finished;
  return fmt::format("the reference has no {} in step {}{}", actual.name, actual.step,
                     is_known ? ": it " + exit_in_words(*end) : "");
}

std::string element_in_words(const ElementDifference& difference) {
  const std::string distance =
      difference.ulp_distance ? fmt::format("; {} ULP apart", *difference.ulp_distance) : "";
  const std::string element =
      difference.index.empty() ? "it" : "element " + shape_in_words(difference.index);
  return fmt::format("{} is {} {} and {} {} ({}, {}{})", element, number(difference.left_value),
                     place_of(difference.left), number(difference.right_value),
                     place_of(difference.right), difference.left_bits, difference.right_bits,
                     distance);
}

}  // namespace lockstep
