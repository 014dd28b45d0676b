#include "reports/comparison/tensor_words.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "reports/base/plain_text.h"
#include "reports/record/estimates.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownNames = 5;

/// "ratio 1.2 (±8 %), cosine 0.9 (±2 %)". Requires: there is a ratio.
std::string direction_in_words(const TensorDifference& one) {
  const bool has_error = one.is_estimate && one.rest && one.cosine;
  const auto error = [&](double value) { return has_error ? std::optional(value) : std::nullopt; };
  const double cosine = one.cosine.value_or(0);
  std::string text =
      "ratio " +
      ratio_in_words(*one.ratio, error(error_of_ratio(*one.ratio, cosine, one.rest.value_or(0))));
  if (!one.cosine) return text;
  return text + ", cosine " + cosine_in_words(cosine, error(error_of_cosine(cosine)));
}

}  // namespace

std::string cause_in_words(const TensorDifference& one) {
  if (!one.multiple) return plain(one.cause);
  const bool is_known = !one.multiple->causes.empty();
  return "A times " + (is_known ? in_words(*one.multiple) : factor_in_words(*one.multiple));
}

std::string size_in_words(const TensorDifference& one) {
  if (!one.is_measured() && !one.cause.empty()) return plain(one.cause);
  std::string text;
  if (one.multiple) {
    text = fmt::format("B is {}; ", cause_in_words(one));
  } else if (!one.cause.empty()) {
    text = plain(one.cause) + "; ";
  } else if (one.ratio) {
    text = direction_in_words(one) + "; ";
  }
  const std::string estimate =
      one.estimate_error ? fmt::format(" (±{:.0f} %)", 100 * *one.estimate_error) : "";
  return text + fmt::format("{:.{}g}{} of {} apart, tolerance {:.2g}", one.relative,
                            one.estimate_error ? 2 : 3, estimate,
                            one.is_of_all ? "1 % of the norm of all" : "the larger norm",
                            one.tolerance);
}

std::string names_in_words(const std::vector<std::string>& names) {
  return plain(listed(names, kShownNames));
}

}  // namespace lockstep
