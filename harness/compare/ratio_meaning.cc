#include "harness/compare/ratio_meaning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lockstep {

namespace {

/// Possible meaning of a ratio.
struct Explanation {
  double factor = 0;
  std::optional<RatioCause> cause;  ///< absent: nothing in the job is of that size
  double scale = 1;                 ///< a precision is relative to this
  FindingKind kind = FindingKind::scaled_by_a_constant;
};

/// Adds those by a norm that a size of the job makes too large or too small. Roots of squares are
/// other explanations.
void add_roots(const KnownSize& size, std::vector<Explanation>& known) {
  const double root = std::sqrt(static_cast<double>(size.count));
  if (root == std::floor(root)) return;
  known.push_back(
      {1 / root, RatioCause{CauseOfRatio::norm_of_copies, size.count, size.what}, 1 / root});
  known.push_back({root, RatioCause{CauseOfRatio::norm_of_part, size.count, size.what}, root});
}

/// Adds those by one that counts twice, or not at all in a divisor.
void add_one_off(const KnownSize& size, std::vector<Explanation>& known) {
  const auto n = static_cast<double>(size.count);
  known.push_back({(n + 1) / n, RatioCause{CauseOfRatio::counted_twice, size.count, size.what}, 1});
  if (size.count < 3) return;  // the same as summed over both
  known.push_back({n / (n - 1), RatioCause{CauseOfRatio::one_too_few, size.count, size.what}, 1});
}

/// Adds causes by one of the sizes of the job.
void add_causes(const KnownSize& size, std::vector<Explanation>& known) {
  const auto n = static_cast<double>(size.count);
  known.push_back({1 / n, RatioCause{CauseOfRatio::divided_by, size.count, size.what}, 1 / n});
  known.push_back({n, RatioCause{CauseOfRatio::summed_over, size.count, size.what}, n});
  add_roots(size, known);
  add_one_off(size, known);
  if (size.count < 3) return;  // the same as one counted twice
  known.push_back(
      {(n + 1) / 2, RatioCause{CauseOfRatio::counted_by_number, size.count, size.what}, 1});
}

/// Most likely first.
std::vector<Explanation> explanations(int world_size, const std::vector<KnownSize>& others) {
  constexpr double kNothing = 1e-3;
  const double w = world_size;
  std::vector<Explanation> known{
      {1 / w, RatioCause{CauseOfRatio::averaged_twice, world_size}, 1 / w,
       FindingKind::divided_by_world_size},
      {w, RatioCause{CauseOfRatio::summed_over_ranks, world_size}, w,
       FindingKind::scaled_by_world_size},
      {1 / (w * w), RatioCause{CauseOfRatio::averaged_three_times, world_size}, 1 / (w * w),
       FindingKind::divided_by_world_size},
      {-1, RatioCause{CauseOfRatio::sign_flipped}, 1, FindingKind::sign_flipped},
      {0, RatioCause{CauseOfRatio::nothing_arrived}, kNothing, FindingKind::nothing_arrived},
  };
  if (world_size > 1) {
    add_roots({world_size, "ranks"}, known);
    add_one_off({world_size, "ranks"}, known);
  }
  for (const KnownSize& size : others) {
    if (size.count > 1) add_causes(size, known);
  }
  for (int n = 2; n <= 16; ++n) {
    known.push_back({(n + 1.0) / n, std::nullopt, 1});
    known.push_back({1.0 / n, RatioCause{CauseOfRatio::divided, n}, 1.0 / n});
    known.push_back(
        {static_cast<double>(n), RatioCause{CauseOfRatio::counted, n}, static_cast<double>(n)});
  }
  for (int power = 5; power <= 24; ++power) {  // of two, as loss scales are
    const auto n = static_cast<double>(std::int64_t{1} << power);
    known.push_back({n, RatioCause{CauseOfRatio::scaled_up, power}, n});
    known.push_back({1 / n, RatioCause{CauseOfRatio::scaled_down, power}, 1 / n});
  }
  return known;
}

/// Whether causes name a norm of as many replicas or parts: which ranks they are says little.
bool is_told(const RatioCause& cause, const std::vector<RatioCause>& causes) {
  const bool is_norm =
      cause.kind == CauseOfRatio::norm_of_copies || cause.kind == CauseOfRatio::norm_of_part;
  return is_norm && std::ranges::any_of(causes, [&](const RatioCause& one) {
           return one.kind == cause.kind && one.count == cause.count;
         });
}

/// A fraction of small numbers without a known cause, such as 5/8.
std::optional<double> small_fraction(double ratio, double precision) {
  constexpr double kChance = 1e-3;  // every number has a fraction this close
  if (precision > kChance) return std::nullopt;
  for (int below = 2; below <= 16; ++below) {
    const double above = std::round(ratio * below);
    const bool is_small = above >= 1 && above <= 16 && above != below;
    if (is_small && std::abs(ratio - above / below) <= precision * ratio) return above / below;
  }
  return std::nullopt;
}

}  // namespace

void add_size(std::int64_t count, const std::string& what, std::vector<KnownSize>& sizes) {
  const KnownSize size{count, what};
  if (count > 1 && std::find(sizes.begin(), sizes.end(), size) == sizes.end()) {
    sizes.push_back(size);
  }
}

double simple_factor(double ratio, double precision) {
  constexpr double kOfFractions = 1e-3;  // every number has a fraction this close
  constexpr double kOfWholeNumbers = 0.02;
  for (int below = 1; below <= 16 && precision <= kOfWholeNumbers; ++below) {
    const double above = std::round(ratio * below);
    const bool is_simple = above == 1 || below == 1 || precision <= kOfFractions;
    if (!is_simple || above < 1 || above > 16) continue;
    if (std::abs(ratio - above / below) > precision * ratio) continue;
    return above / below;
  }
  return std::stod(fmt::format("{:.4g}", ratio));
}

std::optional<RatioMeaning> meaning_of_ratio(double ratio, int world_size, double precision,
                                             const std::vector<KnownSize>& others) {
  if (!(std::abs(ratio - 1) > precision)) return std::nullopt;
  std::vector<Explanation> fitting = explanations(world_size, others);
  std::erase_if(fitting, [&](const Explanation& known) {
    return !(std::abs(ratio - known.factor) <= precision * known.scale);
  });
  if (fitting.empty()) {
    const auto fraction = small_fraction(ratio, precision);
    if (!fraction) return std::nullopt;
    return RatioMeaning{FindingKind::scaled_by_a_constant, {*fraction, precision}};
  }
  RatioMeaning meaning{fitting.front().kind, {fitting.front().factor, precision}};
  for (const Explanation& known : fitting) {
    if (known.factor != meaning.ratio.factor) return std::nullopt;  // ambiguous at this precision
    if (known.cause && !is_told(*known.cause, meaning.ratio.causes)) {
      meaning.ratio.causes.push_back(*known.cause);
    }
  }
  return meaning;
}

}  // namespace lockstep
