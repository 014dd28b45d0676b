#include "harness/checkpoint/compare_elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>

#include "harness/checkpoint/tensor_stream.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// A number of a tensor.
struct Component {
  DType type;
  const std::byte* at;
  double value;
};

bool has_sign(DType type) { return type != DType::float8_e8m0fnu; }

/// The next number of a floating type, above or below; not finite at the end of its range.
double next_number(const Component& from, bool is_above) {
  const std::size_t size = item_size(from.type);
  std::uint64_t bits = 0;
  std::memcpy(&bits, from.at, size);
  const std::uint64_t sign = has_sign(from.type) ? std::uint64_t{1} << (8 * size - 1) : 0;
  const bool is_negative = (bits & sign) != 0;
  if ((bits & ~sign) == 0 && sign != 0) {
    bits = is_above ? 1 : sign | 1;
  } else {
    bits += is_above == is_negative ? -std::uint64_t{1} : 1;
  }
  return component_value(from.type, reinterpret_cast<const std::byte*>(&bits));
}

/// The same, beyond the range as if there were one.
double neighbour(const Component& from, bool is_above) {
  const double next = next_number(from, is_above);
  return std::isfinite(next) ? next : 2 * from.value - next_number(from, !is_above);
}

/// Whether values are equal, signs of zeros included.
bool is_same_value(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

/// Whether no number of its type is nearer to `exact`, another value.
bool is_nearest(const Component& rounded, double exact) {
  if (!std::isfinite(rounded.value) || !std::isfinite(exact)) return false;
  if (rounded.value == exact || unit_roundoff(rounded.type) == 0) return false;
  const double next = neighbour(rounded, exact > rounded.value);
  return std::abs(exact - rounded.value) <= std::abs(exact - next);
}

/// The distances of the numbers of a type. Without fraction they are 1.
class LastPlaces {
 public:
  explicit LastPlaces(DType type)
      : of_one_(2 * unit_roundoff(type)), least_(of_one_ > 0 ? smallest_subnormal(type) : 1) {}

  /// At a number of this size.
  double unit_at(double size) const {
    constexpr std::uint64_t kExponent = 0x7ff0000000000000;
    const auto power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(size) & kExponent);
    return std::max(of_one_ * power, least_);
  }

 private:
  double of_one_;
  double least_;
};

class ElementComparison {
 public:
  ElementComparison(const CheckpointTensor& a, const CheckpointTensor& b)
      : shape_(a.shape),
        types_{component_type(a.dtype), component_type(b.dtype)},
        is_b_coarser_(unit_roundoff(types_[1]) > unit_roundoff(types_[0])),
        places_(types_[is_b_coarser_ ? 1 : 0]),
        components_(components(a.dtype)) {
    found_.elements = element_count(shape_);
    found_.rows = shape_.empty() ? 1 : shape_[0];
    row_elements_ = found_.rows > 0 ? found_.elements / found_.rows : 0;
  }

  /// The next elements of both.
  void add(std::span<const std::byte> a, std::span<const std::byte> b) {
    const std::size_t size_a = item_size(types_[0]), size_b = item_size(types_[1]);
    const std::size_t element_a = size_a * components_, element_b = size_b * components_;
    const auto count = static_cast<std::int64_t>(a.size() / element_a);
    const bool has_same_bits =
        types_[0] == types_[1] && std::equal(a.begin(), a.end(), b.begin(), b.end());
    for (std::int64_t i = 0; i < count && !has_same_bits; ++i) {
      const auto at = static_cast<std::size_t>(i);
      add_element(number_ + i, a.data() + at * element_a, b.data() + at * element_b);
    }
    number_ += count;
  }

  ElementDifferences found() const {
    ElementDifferences found = found_;
    found.apart = std::sqrt(squares_);
    return found;
  }

 private:
  void add_element(std::int64_t number, const std::byte* a, const std::byte* b) {
    bool differs = false;
    for (std::size_t c = 0; c < components_; ++c) {
      const std::byte* const at_a = a + c * item_size(types_[0]);
      const std::byte* const at_b = b + c * item_size(types_[1]);
      const Component of_a{types_[0], at_a, component_value(types_[0], at_a)};
      const Component of_b{types_[1], at_b, component_value(types_[1], at_b)};
      if (!are_different(of_a, of_b)) continue;
      differs = true;
      add_different(number, of_a, of_b);
    }
    if (!differs) return;
    ++found_.differing;
    const std::int64_t row = number / row_elements_;
    if (row != last_row_) ++found_.differing_rows;
    last_row_ = row;
  }

  static bool are_different(const Component& a, const Component& b) {
    if (a.type == b.type) return std::memcmp(a.at, b.at, item_size(a.type)) != 0;
    return !is_same_value(a.value, b.value);
  }

  void add_different(std::int64_t number, const Component& a, const Component& b) {
    const auto& [coarse, fine] = is_b_coarser_ ? std::tie(b, a) : std::tie(a, b);
    found_.is_rounded =
        found_.is_rounded && (is_nearest(coarse, fine.value) || is_nearest(fine, coarse.value));
    double ulps = std::numeric_limits<double>::infinity();
    if (std::isfinite(a.value) && std::isfinite(b.value)) {
      const double apart = b.value - a.value;
      squares_ += apart * apart;
      const double size = std::max(std::abs(a.value), std::abs(b.value));
      ulps = std::abs(apart) / places_.unit_at(size);
    }
    if (!found_.place.empty() && ulps <= found_.ulps) return;
    found_.ulps = ulps;
    found_.place = index_of(number, shape_);
    found_.value_a = a.value;
    found_.value_b = b.value;
  }

  std::vector<std::int64_t> shape_;
  DType types_[2];
  bool is_b_coarser_;
  LastPlaces places_;  ///< of the coarser type
  std::size_t components_;
  std::int64_t row_elements_ = 0;
  std::int64_t number_ = 0;     ///< of the next element
  std::int64_t last_row_ = -1;  ///< that has a difference
  double squares_ = 0;
  ElementDifferences found_;
};

}  // namespace

ElementDifferences compare_elements(const CheckpointTensor& a, const CheckpointTensor& b) {
  const std::size_t most =
      TensorStream::kBlockBytes / std::max(item_size(a.dtype), item_size(b.dtype));
  ElementComparison comparison(a, b);
  TensorStream of_a(a), of_b(b);
  for (;;) {
    const auto bytes_a = of_a.next(most), bytes_b = of_b.next(most);
    if (bytes_a.empty()) return comparison.found();
    comparison.add(bytes_a, bytes_b);
  }
}

}  // namespace lockstep
