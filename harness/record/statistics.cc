#include "harness/record/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "reports/base/csv_text.h"

namespace lockstep {
namespace {

template <class T>
struct Bounds {
  T minimum;
  T maximum;
};

template <class T>
void include(std::optional<Bounds<T>>& range, T value) {
  if (!range) range = Bounds<T>{value, value};
  range->minimum = std::min(range->minimum, value);
  range->maximum = std::max(range->maximum, value);
}

template <class Visit>
void for_each_component(DType component, std::span<const std::byte> bytes, const Visit& visit) {
  const std::size_t size = item_size(component);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) visit(bytes.data() + at);
}

// A power of two that scales `largest` to about 1, so that squares neither overflow nor underflow
// and no digit changes.
double scale_for(double largest) {
  if (largest == 0) return 1;
  return std::scalbn(1.0, -std::clamp(std::ilogb(largest), -1000, 1000));
}

double norm_of(DType component, std::span<const std::byte> bytes, double largest) {
  const double scale = scale_for(largest);
  double sum = 0;
  for_each_component(component, bytes, [&](const std::byte* at) {
    const double value = component_value(component, at) * scale;
    if (std::isfinite(value)) sum += value * value;
  });
  return std::sqrt(sum) / scale;
}

std::optional<Bounds<std::int64_t>> int64_range(std::span<const std::byte> bytes) {
  std::optional<Bounds<std::int64_t>> range;
  for_each_component(DType::int64, bytes, [&](const std::byte* at) {
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    include(range, value);
  });
  return range;
}

Extreme extreme_of(DType component, double value) {
  if (unit_roundoff(component) > 0) return value;
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string to_text(const Extreme& extreme) {
  if (const auto* whole = std::get_if<std::int64_t>(&extreme)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&extreme)) return exact_decimal(*number);
  return "";
}

Statistics statistics(DType dtype, std::span<const std::byte> bytes) {
  const DType component = component_type(dtype);
  Statistics result;
  std::optional<Bounds<double>> range;
  for_each_component(component, bytes, [&](const std::byte* at) {
    const double value = component_value(component, at);
    if (std::isfinite(value)) {
      include(range, value + 0.0);  // turns -0.0 into 0.0
    } else {
      ++result.non_finite;
    }
  });
  if (!range) return result;
  result.norm =
      norm_of(component, bytes, std::max(std::abs(range->minimum), std::abs(range->maximum)));
  if (component == DType::int64) {
    const auto exact = int64_range(bytes);
    result.minimum = exact->minimum;
    result.maximum = exact->maximum;
  } else {
    result.minimum = extreme_of(component, range->minimum);
    result.maximum = extreme_of(component, range->maximum);
  }
  return result;
}

}  // namespace lockstep
