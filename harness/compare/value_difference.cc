#include "harness/compare/value_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// Sums over the components of two tensors. Their squares do not overflow a double.
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
    if (apart > worst) worst = static_cast<double>(apart);  // a NaN stays
    squared_difference += apart * apart;
    left_left += a * a;
    right_right += b * b;
    left_right += a * b;
  }
};

ElementDifference element_difference(const SnapshotTensor& left, const SnapshotTensor& right,
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

ValueDifference difference(const SnapshotTensor& left, const SnapshotTensor& right) {
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
  found.right_norm = static_cast<double>(right_norm);
  if (right_norm > 0) found.ratio = static_cast<double>(sums.left_right / sums.right_right);
  if (right_norm > 0 && left_norm > 0) {
    found.cosine = static_cast<double>(sums.left_right / (left_norm * right_norm));
  }
  return found;
}

std::vector<double> components_of(const SnapshotTensor& tensor) {
  const DType component = component_type(tensor.dtype);
  const std::size_t size = item_size(component);
  std::vector<double> numbers;
  numbers.reserve(tensor.bytes.size() / size);
  for (std::size_t at = 0; at + size <= tensor.bytes.size(); at += size) {
    numbers.push_back(component_value(component, tensor.bytes.data() + at));
  }
  return numbers;
}

double worse(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return std::max(a, b);
}

}  // namespace lockstep
