#include "reports/comparison/tensor_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kShownNames = 5;

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
    text = fmt::format("ratio {:.4g}; ", *one.ratio);
    if (one.cosine) text = fmt::format("ratio {:.4g}, cosine {:.4g}; ", *one.ratio, *one.cosine);
  }
  const std::string estimate =
      one.estimate_error ? fmt::format(" (an estimate, error {:.0f} %)", 100 * *one.estimate_error)
                         : "";
  return text + fmt::format("relative difference {:.3g}{}, tolerance {:.2g}", one.relative,
                            estimate, one.tolerance);
}

std::string names_in_words(const std::vector<std::string>& names) {
  const std::size_t shown = std::min(kShownNames, names.size());
  std::string text = plain(fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", ")));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace lockstep
