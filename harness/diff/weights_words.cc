#include "harness/diff/weights_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "harness/diff/tensor_words.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownWeights = 8;

const std::vector<TensorDifference>& weights_of(const DiffRecord& diff) {
  return diff.steps.front().tensors;
}

/// Those that are different; without any, those that are undecided.
std::vector<const TensorDifference*> worst_of(const DiffRecord& diff) {
  const Likeness worst = first_different(diff) ? Likeness::different : Likeness::undecided;
  std::vector<const TensorDifference*> found;
  for (const TensorDifference& one : weights_of(diff)) {
    if (one.likeness == worst) found.push_back(&one);
  }
  return found;
}

/// "1 of 8 weights, first.weight: B is A times 2; relative difference 0.5, tolerance 6e-08".
std::string worst_in_words(const DiffRecord& diff) {
  const auto found = worst_of(diff);
  const std::size_t all = weights_of(diff).size();
  return fmt::format("{} of {} weights, {}{}: {}", found.size(), all,
                     found.size() == 1 ? "" : "first ", plain(found.front()->name),
                     size_in_words(*found.front()));
}

/// "equal up to rounding: 8 weights, 2 of them bit for bit; at most 0.0016 apart, ...".
std::string equality_in_words(const DiffRecord& diff) {
  const auto& weights = weights_of(diff);
  const auto equal = diff.steps.front().count(Likeness::equal);
  const auto count = static_cast<std::int64_t>(weights.size());
  if (equal == count) return fmt::format("equal, bit for bit: {} weights", count);
  const auto farthest = std::max_element(
      weights.begin(), weights.end(),
      [](const auto& one, const auto& other) { return one.relative < other.relative; });
  return fmt::format("equal up to rounding: {} weights, {} of them bit for bit; farthest {}: {}",
                     count, equal, plain(farthest->name), size_in_words(*farthest));
}

std::string unmatched_in_words(const DiffRecord& diff) {
  const std::size_t alone = std::max(diff.unmatched[0].size(), diff.unmatched[1].size());
  if (alone == 0) return "";
  return fmt::format("; only {} of {} are on both sides", diff.matched,
                     static_cast<std::size_t>(diff.matched) + alone);
}

}  // namespace

std::string checkpoint_in_words(const DiffSide& side) {
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

std::string weights_in_words(const DiffRecord& diff) {
  if (first_different(diff)) return "DIFFERENT: " + worst_in_words(diff);
  if (verdict_of(diff) == Verdict::holds) {
    return equality_in_words(diff) + unmatched_in_words(diff);
  }
  const std::string& reason = diff.steps.front().undecidable;
  return "UNDECIDED: " + worst_in_words(diff) + (reason.empty() ? "" : "; " + reason);
}

std::vector<std::string> lines_of_weights(const DiffRecord& diff) {
  std::vector<std::string> lines;
  if (diff.matched == 0) return lines;
  if (first_non_finite(diff)) lines.push_back("Elements are not finite on both sides.");
  if (verdict_of(diff) == Verdict::holds) return lines;
  const auto found = worst_of(diff);
  if (found.size() < 2) return lines;
  for (const TensorDifference* one : found) {
    if (lines.size() >= kShownWeights) {
      lines.push_back(fmt::format("  and {} more", found.size() - kShownWeights));
      break;
    }
    lines.push_back(fmt::format("  {}: {}", plain(one->name), size_in_words(*one)));
  }
  return lines;
}

}  // namespace lockstep
