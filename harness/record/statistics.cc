#include "harness/record/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "harness/record/component_pass.h"
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

/// Whether squares of numbers of at most `largest` neither overflow nor, where they matter,
/// underflow.
bool has_plain_squares(double largest) {
  return largest == 0 || (largest > 0x1p-400 && largest < 0x1p400);
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

Statistics statistics_of_whole_numbers(DType component, std::span<const std::byte> bytes) {
  std::optional<Bounds<double>> range;
  for_each_component(component, bytes,
                     [&](const std::byte* at) { include(range, component_value(component, at)); });
  Statistics result;
  if (!range) return result;
  result.norm =
      norm_of(component, bytes, std::max(std::abs(range->minimum), std::abs(range->maximum)));
  if (component == DType::int64) {
    const auto exact = int64_range(bytes);
    result.minimum = exact->minimum;
    result.maximum = exact->maximum;
  } else {
    result.minimum = static_cast<std::int64_t>(range->minimum);
    result.maximum = static_cast<std::int64_t>(range->maximum);
  }
  return result;
}

}  // namespace

std::string to_text(const Extreme& extreme) {
  if (const auto* whole = std::get_if<std::int64_t>(&extreme)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&extreme)) return exact_decimal(*number);
  return "";
}

Statistics statistics(DType dtype, std::span<const std::byte> bytes, const ComponentSums& sums) {
  const DType component = component_type(dtype);
  if (unit_roundoff(component) == 0) return statistics_of_whole_numbers(component, bytes);
  Statistics result;
  result.non_finite = sums.non_finite;
  if (sums.least > sums.most) return result;  // nothing is finite
  result.minimum = sums.least + 0.0;          // turns -0.0 into 0.0
  result.maximum = sums.most + 0.0;
  const double largest = std::max(std::abs(sums.least), std::abs(sums.most));
  result.norm = has_plain_squares(largest)
                    ? std::sqrt(std::accumulate(sums.squares.begin(), sums.squares.end(), 0.0))
                    : norm_of(component, bytes, largest);
  return result;
}

Statistics statistics(DType dtype, std::span<const std::byte> bytes) {
  ComponentPass pass(component_type(dtype), {});
  pass.add(bytes, 0);
  return statistics(dtype, bytes, pass.sums());
}

}  // namespace lockstep
