#include "reports/comparison/weights_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "reports/base/plain_text.h"
#include "reports/comparison/tensor_words.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownWeights = 8;
constexpr double kShownRatio = 0.01;  // of a smaller difference, ratio and cosine read as 1

const std::vector<TensorDifference>& weights_of(const ComparedPair& diff) {
  return diff.steps.front().tensors;
}

/// "0.5 in A and 1 in B, 8.4e+06 units in the last place".
std::string farthest_in_words(const ElementDifferences& found) {
  const std::string place =
      found.place.empty() ? "" : fmt::format(" at [{}]", fmt::join(found.place, ", "));
  const std::string apart =
      std::isinf(found.ulps) ? "" : fmt::format(", {:.3g} units in the last place", found.ulps);
  return fmt::format("farthest{}: {:.9g} in A and {:.9g} in B{}", place, found.value_a,
                     found.value_b, apart);
}

/// "2 of 512 elements differ, in 2 of 32 rows, farthest at [9, 12]: ...".
std::string elements_in_words(const ElementDifferences& found) {
  if (found.differing == 0) return "the same values in another type";
  std::string text = fmt::format("{} of {} elements differ", found.differing, found.elements);
  if (found.place.size() > 1) {
    text += fmt::format(", in {} of {} rows", found.differing_rows, found.rows);
  }
  return text + ", " + farthest_in_words(found);
}

/// "ratio 1.5, cosine 0.9; relative difference 0.4; 2 of 512 elements differ, ...".
std::string weight_in_words(const TensorDifference& one) {
  if (!one.elements)
    return one.kind == FindingKind::other_shape ? plain(one.cause) : size_in_words(one);
  std::string text;
  if (one.multiple) {
    text = fmt::format("B is {}; ", cause_in_words(one));
  } else if (!one.cause.empty()) {
    text = plain(one.cause) + "; ";
  } else if (one.relative >= kShownRatio && one.ratio && one.cosine) {
    text = fmt::format("ratio {:.6g}, cosine {:.6g}; ", *one.ratio, *one.cosine);
  }
  return text + fmt::format("relative difference {:.3g}; {}", one.relative,
                            elements_in_words(*one.elements));
}

/// Those that are different; without any, those that are undecided.
std::vector<const TensorDifference*> worst_of(const ComparedPair& diff) {
  const Likeness worst = first_different(diff) ? Likeness::different : Likeness::undecided;
  std::vector<const TensorDifference*> found;
  for (const TensorDifference& one : weights_of(diff)) {
    if (one.likeness == worst) found.push_back(&one);
  }
  return found;
}

/// "1 of 8 weights, first.weight: B is A times 2; relative difference 0.5".
std::string worst_in_words(const ComparedPair& diff) {
  const auto found = worst_of(diff);
  const std::size_t all = weights_of(diff).size();
  return fmt::format("{} of {} weights, {}{}: {}", found.size(), all,
                     found.size() == 1 ? "" : "first ", plain(found.front()->name),
                     weight_in_words(*found.front()));
}

/// "; 3 only in A, 1 only in B: --map ...".
std::string missing_in_words(const ComparedPair& diff) {
  std::vector<std::string> words;
  for (const std::size_t side : {0U, 1U}) {
    const auto& names = diff.unmatched.at(side);
    const auto found = worst_of(diff);
    const auto count = std::count_if(found.begin(), found.end(), [&](const auto* one) {
      return std::binary_search(names.begin(), names.end(), one->name);
    });
    if (count > 0) words.push_back(fmt::format("{} only in {}", count, side == 0 ? "A" : "B"));
  }
  if (words.empty()) return "";
  return fmt::format("; {}: --map gives tensors other names, --allow-missing lets them be missing",
                     fmt::join(words, ", "));
}

/// "equal up to rounding: 8 weights, 2 of them bit for bit; at most 0.0016 apart, ...".
std::string equality_in_words(const ComparedPair& diff) {
  const auto& weights = weights_of(diff);
  const auto equal = diff.steps.front().count(Likeness::equal);
  const auto count = static_cast<std::int64_t>(weights.size());
  if (equal == count) return fmt::format("equal, bit for bit: {} weights", count);
  const auto farthest = std::max_element(
      weights.begin(), weights.end(),
      [](const auto& one, const auto& other) { return one.relative < other.relative; });
  return fmt::format("equal up to rounding: {} weights, {} of them bit for bit; farthest {}: {}",
                     count, equal, plain(farthest->name), weight_in_words(*farthest));
}

std::string unmatched_in_words(const ComparedPair& diff) {
  const std::size_t alone = std::max(diff.unmatched[0].size(), diff.unmatched[1].size());
  if (alone == 0) return "";
  return fmt::format("; only {} of {} are on both sides", diff.matched,
                     static_cast<std::size_t>(diff.matched) + alone);
}

}  // namespace

std::string checkpoint_in_words(const ComparedSide& side) {
  std::string text = fmt::format("{}, {} ({})", plain(side.title), counted(*side.tensors, "tensor"),
                                 plain(side.folder));
  if (side.optimizer_tensors + side.other_values == 0) return text;
  text += "; left out:";
  if (side.optimizer_tensors > 0) {
    text += fmt::format(" {} of optimizers", side.optimizer_tensors);
  }
  if (side.other_values > 0) {
    text += fmt::format("{} {} that are no tensors", side.optimizer_tensors > 0 ? "," : "",
                        counted(side.other_values, "value"));
  }
  return text;
}

std::string weights_in_words(const ComparedPair& diff) {
  if (first_different(diff)) return worst_in_words(diff) + missing_in_words(diff);
  if (verdict_of(diff) == Verdict::holds) {
    return equality_in_words(diff) + unmatched_in_words(diff);
  }
  const std::string& reason = diff.steps.front().undecidable;
  return worst_in_words(diff) + (reason.empty() ? "" : "; " + reason);
}

std::vector<std::string> lines_of_weights(const ComparedPair& diff) {
  std::vector<std::string> lines;
  if (diff.matched == 0) return lines;
  if (first_non_finite(diff)) lines.emplace_back("Elements are not finite on both sides.");
  for (const TiedTensor& one : diff.tied) {
    lines.push_back(fmt::format("Only {} has {}, with the bits of {}: nothing is missing.",
                                one.side == 0 ? "A" : "B", plain(one.name), plain(one.same)));
  }
  if (verdict_of(diff) == Verdict::holds) return lines;
  const auto found = worst_of(diff);
  if (found.size() < 2) return lines;
  for (const TensorDifference* one : found) {
    if (lines.size() >= kShownWeights) {
      lines.push_back(fmt::format("  and {} more", found.size() - kShownWeights));
      break;
    }
    lines.push_back(fmt::format("  {}: {}", plain(one->name), weight_in_words(*one)));
  }
  return lines;
}

}  // namespace lockstep
