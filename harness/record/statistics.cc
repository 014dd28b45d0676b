#include "harness/record/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "harness/record/component_pass.h"
#include "reports/base/csv_text.h"

namespace lockstep {
namespace {

// A power of two that scales `largest` to about 1, so that squares neither overflow nor underflow
// and no digit changes.
double scale_for(double largest) {
  if (largest == 0) return 1;
  return std::scalbn(1.0, -std::clamp(std::ilogb(largest), -1000, 1000));
}

double norm_of(DType component, const TensorBytes& bytes, double largest) {
  const double scale = scale_for(largest);
  const std::size_t size = item_size(component);
  double sum = 0;
  bytes.for_each_piece([&](std::span<const std::byte> piece) {
    for (std::size_t at = 0; at < piece.size(); at += size) {
      const double value = component_value(component, piece.data() + at) * scale;
      if (std::isfinite(value)) sum += value * value;
    }
  });
  return std::sqrt(sum) / scale;
}

/// Whether squares of numbers of at most `largest` neither overflow nor, where they matter,
/// underflow.
bool has_plain_squares(double largest) {
  return largest == 0 || (largest > 0x1p-400 && largest < 0x1p400);
}

double largest_of(const ComponentSums& sums) {
  return std::max(std::abs(sums.least), std::abs(sums.most));
}

Statistics statistics_of_whole_numbers(const ComponentSums& sums) {
  Statistics result;
  if (sums.least_whole > sums.most_whole) return result;  // no elements
  result.minimum = sums.least_whole;
  result.maximum = sums.most_whole;
  result.norm = root_of(sums.whole_squares);
  return result;
}

}  // namespace

std::string to_text(const Extreme& extreme) {
  if (const auto* whole = std::get_if<std::int64_t>(&extreme)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&extreme)) return exact_decimal(*number);
  return "";
}

bool needs_bytes(DType dtype, const ComponentSums& sums) {
  return may_need_bytes(dtype) && sums.least <= sums.most && !has_plain_squares(largest_of(sums));
}

bool may_need_bytes(DType dtype) { return component_type(dtype) == DType::float64; }

Statistics statistics(DType dtype, const TensorBytes& bytes, const ComponentSums& sums) {
  const DType component = component_type(dtype);
  if (unit_roundoff(component) == 0) return statistics_of_whole_numbers(sums);
  Statistics result;
  result.non_finite = sums.non_finite;
  if (sums.least > sums.most) return result;  // nothing is finite
  result.minimum = sums.least + 0.0;          // turns -0.0 into 0.0
  result.maximum = sums.most + 0.0;
  result.norm = needs_bytes(dtype, sums)
                    ? norm_of(component, bytes, largest_of(sums))
                    : std::sqrt(std::accumulate(sums.squares.begin(), sums.squares.end(), 0.0));
  return result;
}

Statistics statistics(DType dtype, std::span<const std::byte> bytes) {
  ComponentPass pass(component_type(dtype), {});
  pass.add(bytes, 0);
  return statistics(dtype, bytes, pass.sums());
}

}  // namespace lockstep
