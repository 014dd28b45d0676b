#include "reports/record/estimates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr double kOfRest = 0.18;
constexpr double kNearOne = 0.005;
constexpr double kSameAsOne = 1e-12;
constexpr int kMostDigits = 4;

/// Significant digits of a number with a relative error.
int digits_of(double error) {
  if (error <= 0) return kMostDigits;
  return std::clamp(static_cast<int>(std::round(-std::log10(error))) + 1, 1, kMostDigits);
}

/// `error`: absolute; absent: it is exact.
std::string number_in_words(double value, std::optional<double> error) {
  const double relative = error && value != 0 ? *error / std::abs(value) : 0;
  std::string text = fmt::format("{:.{}g}", value, digits_of(relative));
  constexpr double kShown = 0.0005;  // of an error in percent
  if (relative < kShown) return text;
  const double percent = 100 * relative;
  return text + fmt::format(" (±{:.{}f} %)", percent, percent < 1 ? 1 : 0);
}

}  // namespace

std::string ratio_in_words(double ratio, std::optional<double> error) {
  const double apart = ratio - 1;
  if (std::abs(apart) <= kSameAsOne) return "1";
  if (std::abs(apart) >= kNearOne) return number_in_words(ratio, error);
  return fmt::format("1 {} {}", apart < 0 ? '-' : '+', number_in_words(std::abs(apart), error));
}

std::string cosine_in_words(double cosine, std::optional<double> error) {
  const bool is_near_one = 1 - cosine < kNearOne;
  if (is_near_one || !error) return ratio_in_words(cosine, error);
  return fmt::format("{:.2f} (±{:.2g})", cosine, *error);
}

double error_of_ratio(double ratio, double cosine, double rest) {
  constexpr double kLeast = 1e-6;  // of a cosine: without direction a ratio is nothing
  return kOfRest * rest * std::abs(ratio) / std::max(std::abs(cosine), kLeast);
}

double error_of_cosine(double cosine) { return kOfRest * (1 - cosine * cosine); }

}  // namespace lockstep
