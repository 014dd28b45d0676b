#include "harness/record/statistics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
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

/// Of floats of at most 32 bits, whose squares neither overflow nor underflow in float64: one pass,
/// in lanes that a compiler adds up at the same time.
template <class Load>
Statistics statistics_of_small(std::span<const std::byte> bytes, std::size_t size,
                               const Load& load) {
  constexpr std::size_t kLanes = 8;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::array<double, kLanes> squares{};
  std::array<float, kLanes> least, most;
  std::array<std::int32_t, kLanes> finite{};
  least.fill(kInfinity);
  most.fill(-kInfinity);
  const auto add = [&](std::size_t lane, float value) {
    const bool is_finite = std::abs(value) < kInfinity;
    const float low = is_finite ? value : kInfinity;
    const float high = is_finite ? value : -kInfinity;
    const double square = is_finite ? double(value) * double(value) : 0.0;
    least[lane] = low < least[lane] ? low : least[lane];
    most[lane] = high > most[lane] ? high : most[lane];
    squares[lane] += square;
    finite[lane] += is_finite ? 1 : 0;
  };
  const std::size_t count = bytes.size() / size;
  std::int64_t all_finite = 0;
  for (std::size_t i = 0; i < count;) {
    // A block whose counts fit into 32 bits.
    const std::size_t end = std::min(count, i + (std::size_t{1} << 30));
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        add(lane, load(bytes.data() + (i + lane) * size));
      }
    }
    for (std::size_t lane = 0; i < end; ++i, ++lane) add(lane, load(bytes.data() + i * size));
    all_finite = std::accumulate(finite.begin(), finite.end(), all_finite);
    finite = {};
  }
  Statistics result;
  result.non_finite = static_cast<std::int64_t>(count) - all_finite;
  if (all_finite == 0) return result;
  result.norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  // Adding turns -0.0 into 0.0.
  result.minimum = double(*std::min_element(least.begin(), least.end())) + 0.0;
  result.maximum = double(*std::max_element(most.begin(), most.end())) + 0.0;
  return result;
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
  if (component == DType::float32) {
    return statistics_of_small(bytes, sizeof(float), [](const std::byte* at) {
      float value;
      std::memcpy(&value, at, sizeof value);
      return value;
    });
  }
  if (component == DType::bfloat16) {
    return statistics_of_small(bytes, sizeof(std::uint16_t), [](const std::byte* at) {
      std::uint16_t half;
      std::memcpy(&half, at, sizeof half);
      return std::bit_cast<float>(std::uint32_t{half} << 16);
    });
  }
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
