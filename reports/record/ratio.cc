#include "reports/record/ratio.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace lockstep {

namespace {

std::string cause_in_words(const RatioCause& cause) {
  switch (cause.kind) {
    case CauseOfRatio::summed_over_ranks:
      return fmt::format("summed over {} ranks, never averaged", cause.count);
    case CauseOfRatio::averaged_twice:
      return fmt::format("averaged twice over {} ranks", cause.count);
    case CauseOfRatio::averaged_three_times:
      return "averaged three times";
    case CauseOfRatio::counted_twice:
      return fmt::format("one of {} {} counted twice, if they are alike", cause.count, cause.size);
    case CauseOfRatio::counted_by_number:
      return fmt::format("of {} {}, the k-th counted k times, if they are alike", cause.count,
                         cause.size);
    case CauseOfRatio::one_too_few:
      return fmt::format("divided by {}, where there are {} {}", cause.count - 1, cause.count,
                         cause.size);
    case CauseOfRatio::norm_of_copies:
      return fmt::format("as a norm that counts {0} replicas would give ({0} {1})", cause.count,
                         cause.size);
    case CauseOfRatio::norm_of_part:
      return fmt::format("as a norm over one of {0} parts would give ({0} {1})", cause.count,
                         cause.size);
    case CauseOfRatio::divided_by:
      return fmt::format("divided by the {} {}", cause.count, cause.size);
    case CauseOfRatio::summed_over:
      return fmt::format("summed over the {} {}", cause.count, cause.size);
    case CauseOfRatio::divided:
      return fmt::format("divided by {}", cause.count);
    case CauseOfRatio::counted:
      return fmt::format("counted {} times", cause.count);
    case CauseOfRatio::scaled_up:
      return fmt::format("scaled by 2^{}, as by a loss scale", cause.count);
    case CauseOfRatio::scaled_down:
      return fmt::format("divided by 2^{}, as by a loss scale", cause.count);
    case CauseOfRatio::learning_rate:
      return "as by a learning rate times ";
    case CauseOfRatio::sign_flipped:
      return "the sign is flipped";
    case CauseOfRatio::nothing_arrived:
      return "nothing arrived";
  }
  return "";
}

/// "3", "1/16777216", "5/8"; empty: it is no fraction of small numbers.
std::string fraction_in_words(double factor) {
  constexpr double kExact = 1e-12;  // of the division that made it
  constexpr int kLargest = 17;      // (16 + 1) / 16
  for (int below = 1; below <= kLargest; ++below) {
    const double above = std::round(factor * below);
    if (std::abs(factor * below - above) > kExact * std::abs(above)) continue;
    if (below > 1 && std::abs(above) > kLargest) continue;
    return below == 1 ? fmt::format("{:.0f}", above) : fmt::format("{:.0f}/{}", above, below);
  }
  return "";
}

/// Whether the factor of a cause is a whole number or one part of one.
bool has_count(CauseOfRatio kind) {
  return kind != CauseOfRatio::learning_rate && kind != CauseOfRatio::sign_flipped &&
         kind != CauseOfRatio::nothing_arrived;
}

}  // namespace

bool is_same(const Ratio& one, const Ratio& other) {
  return one.factor == other.factor && one.causes == other.causes;
}

std::string factor_in_words(const Ratio& ratio) {
  const CauseOfRatio kind = ratio.causes.empty() ? CauseOfRatio::counted : ratio.causes[0].kind;
  if (kind == CauseOfRatio::norm_of_copies) {
    return fmt::format("1/sqrt({})", ratio.causes[0].count);
  }
  if (kind == CauseOfRatio::norm_of_part) return fmt::format("sqrt({})", ratio.causes[0].count);
  std::string fraction = fraction_in_words(ratio.factor);
  if (!fraction.empty()) return fraction;
  const bool is_one_part = !ratio.causes.empty() && has_count(ratio.causes[0].kind);
  return is_one_part ? fmt::format("1/{:.0f}", 1 / ratio.factor)
                     : fmt::format("{:.4g}", ratio.factor);
}

std::string in_words(const Ratio& ratio) {
  const std::string factor = factor_in_words(ratio);
  if (ratio.causes.empty()) return factor + " of the right value";
  std::vector<std::string> causes;
  for (const RatioCause& cause : ratio.causes) {
    causes.push_back(cause_in_words(cause));
    if (cause.kind == CauseOfRatio::learning_rate) causes.back() += factor;
  }
  return fmt::format("{}: {}", factor, fmt::join(causes, ", or "));
}

}  // namespace lockstep
