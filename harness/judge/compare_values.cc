#include "harness/judge/compare_values.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// Sums over the components of two tensors. No double overflows in them when squared.
struct Sums {
  double worst = 0;
  long double squared_difference = 0;
  long double left_left = 0;
  long double right_right = 0;
  long double left_right = 0;

  void add(double left, double right) {
    if (std::isnan(left) && std::isnan(right)) return;
    if (!std::isfinite(left) || !std::isfinite(right)) {
      if (left != right) worst = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    const long double a = left;
    const long double b = right;
    const long double apart = std::abs(a - b);
    if (apart > worst) worst = static_cast<double>(apart);  // stays NaN once it is
    squared_difference += apart * apart;
    left_left += a * a;
    right_right += b * b;
    left_right += a * b;
  }
};

ElementDifference element_difference(const KeptTensor& left, const KeptTensor& right,
                                     std::int64_t element) {
  const DType component = component_type(left.dtype);
  const std::size_t size = item_size(component);
  const std::byte* a =
      left.bytes.data() + static_cast<std::size_t>(element) * item_size(left.dtype);
  const std::byte* b =
      right.bytes.data() + static_cast<std::size_t>(element) * item_size(left.dtype);
  ElementDifference found;
  found.index = index_of(element, left.shape);
  found.left_bits = bits(left.dtype, a);
  found.right_bits = bits(left.dtype, b);
  if (std::memcmp(a, b, size) == 0) {  // a complex element that differs in its imaginary part
    a += size;
    b += size;
  }
  found.left_value = component_value(component, a);
  found.right_value = component_value(component, b);
  found.ulp_distance = ulp_distance(component, a, b);
  return found;
}

}  // namespace

ValueDifference difference(const KeptTensor& left, const KeptTensor& right) {
  const DType component = component_type(left.dtype);
  const std::size_t component_size = item_size(component);
  const std::size_t size = item_size(left.dtype);
  ValueDifference found;
  found.elements = static_cast<std::int64_t>(left.bytes.size() / size);
  Sums sums;
  for (std::int64_t element = 0; element < found.elements; ++element) {
    const std::byte* a = left.bytes.data() + static_cast<std::size_t>(element) * size;
    const std::byte* b = right.bytes.data() + static_cast<std::size_t>(element) * size;
    if (std::memcmp(a, b, size) != 0) {
      if (found.differing++ == 0) found.first = element_difference(left, right, element);
    }
    for (std::size_t c = 0; c < size; c += component_size) {
      sums.add(component_value(component, a + c), component_value(component, b + c));
    }
  }
  found.worst = sums.worst;
  const long double left_norm = std::sqrt(sums.left_left);
  const long double right_norm = std::sqrt(sums.right_right);
  found.norm = static_cast<double>(std::sqrt(sums.squared_difference));
  found.left_norm = static_cast<double>(left_norm);
  found.right_norm = static_cast<double>(right_norm);
  if (right_norm > 0) found.ratio = static_cast<double>(sums.left_right / sums.right_right);
  if (right_norm > 0 && left_norm > 0) {
    found.cosine = static_cast<double>(sums.left_right / (left_norm * right_norm));
  }
  return found;
}

std::string ratio_in_words(double ratio, int world_size, double precision) {
  const double w = world_size;
  const struct {
    double ratio;
    std::string words;
  } known[] = {
      {1 / w, fmt::format("1/{}: averaged twice over {} ranks", world_size, world_size)},
      {w, fmt::format("{}: summed over {} ranks, never averaged", world_size, world_size)},
      {1 / (w * w), fmt::format("1/{}: averaged three times", world_size * world_size)},
      {-1, "-1: the sign is turned round"},
      {0, "0: nothing arrived"},
  };
  if (std::abs(ratio - 1) <= precision) return "";
  for (const auto& candidate : known) {
    if (std::abs(ratio - candidate.ratio) <=
        precision * std::max(std::abs(candidate.ratio), 1e-3)) {
      return candidate.words;
    }
  }
  for (int n = 2; n <= 16; ++n) {
    if (std::abs(ratio - (n + 1.0) / n) <= precision) {
      return fmt::format("({0}+1)/{0}: {0} parts, each counted once more than the one before", n);
    }
    if (std::abs(ratio - 1.0 / n) <= precision / n) return fmt::format("1/{0}: divided by {0}", n);
    if (std::abs(ratio - n) <= precision * n) return fmt::format("{0}: counted {0} times", n);
  }
  return "";
}

}  // namespace lockstep
