#include "harness/record/tensor_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "harness/record/dtype.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"

namespace lockstep {
namespace {

/// A tensor in a larger memory.
struct Strided {
  std::vector<std::byte> memory;
  std::size_t begin = 0;  ///< of its first element
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements
  std::size_t item = 1;

  TensorBytes bytes() const { return {memory.data() + begin, strides.data(), shape, item}; }

  /// Element by element.
  std::vector<std::byte> in_order() const {
    std::vector<std::byte> all;
    for (std::int64_t number = 0; number < element_count(shape); ++number) {
      const auto index = index_of(number, shape);
      const std::int64_t at =
          std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
      const auto first = memory.begin() + static_cast<std::ptrdiff_t>(begin) +
                         at * static_cast<std::ptrdiff_t>(item);
      all.insert(all.end(), first, first + static_cast<std::ptrdiff_t>(item));
    }
    return all;
  }
};

/// Dimensions in random order, with gaps between rows, sizes of 0 and 1, and repeated rows.
Strided drawn(std::mt19937& random, std::size_t item, std::int64_t largest) {
  Strided tensor;
  tensor.item = item;
  const std::size_t dimensions = random() % 5;
  std::vector<std::size_t> order(dimensions);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (random() % 3 > 0) std::shuffle(order.begin(), order.end(), random);
  tensor.shape.resize(dimensions);
  tensor.strides.resize(dimensions);
  std::int64_t extent = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    std::int64_t& size = tensor.shape[*d];
    size = 1 + static_cast<std::int64_t>(random()) % largest;
    if (random() % 20 == 0) size = 0;
    const bool is_repeated = random() % 10 == 0;
    tensor.strides[*d] = is_repeated ? 0 : extent;
    if (!is_repeated) extent *= std::max<std::int64_t>(size, 1);
    if (random() % 5 == 0) extent += static_cast<std::int64_t>(random() % 7);
  }
  tensor.begin = random() % 9 * item;
  tensor.memory.resize(tensor.begin + static_cast<std::size_t>(extent) * item);
  for (std::byte& byte : tensor.memory) byte = static_cast<std::byte>(random());
  return tensor;
}

std::vector<std::byte> joined_pieces(const TensorBytes& bytes, std::size_t item) {
  std::vector<std::byte> all;
  bytes.for_each_piece([&](std::span<const std::byte> piece) {
    EXPECT_EQ(piece.size() % item, 0U);
    all.insert(all.end(), piece.begin(), piece.end());
  });
  return all;
}

TEST(TensorBytes, AreInRowMajorOrderWhateverTheStrides) {
  std::mt19937 random(1);
  for (int draw = 0; draw < 2000; ++draw) {
    const std::size_t item = std::size_t{1} << random() % 5;
    const Strided tensor = drawn(random, item, draw % 10 == 0 ? 30 : 6);
    const std::vector<std::byte> expected = tensor.in_order();
    SCOPED_TRACE(draw);
    EXPECT_EQ(tensor.bytes().size(), expected.size());
    EXPECT_EQ(joined_pieces(tensor.bytes(), item), expected);
    std::vector<std::byte> copy;
    const auto whole = tensor.bytes().in_order(copy);
    EXPECT_TRUE(std::ranges::equal(whole, expected));
  }
}

TEST(TensorBytes, GiveTheValuesOfTheSameTensorWithoutGaps) {
  std::mt19937 random(2);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::complex64,
                            DType::float8_e4m3fn, DType::int32}) {
    for (int draw = 0; draw < 100; ++draw) {
      const Strided tensor = drawn(random, item_size(dtype), 24);
      Observation part;
      part.dtype = name(dtype);
      part.local_shape = tensor.shape;
      Shape offsets;
      Shape of_whole;
      for (const std::int64_t size : tensor.shape) {
        offsets.push_back(static_cast<std::int64_t>(random() % 3));
        of_whole.push_back(size + offsets.back() + static_cast<std::int64_t>(random() % 2));
      }
      part.offset = offsets;
      part.global_shape = of_whole;
      Observation expected = part;
      const Sketch of_expected = measure_and_sketch(expected, tensor.in_order());
      SCOPED_TRACE(testing::Message() << name(dtype) << ", " << draw);
      EXPECT_EQ(measure_and_sketch(part, tensor.bytes()), of_expected);
      EXPECT_EQ(part, expected);
    }
  }
}

TEST(TensorBytes, OfLongRowsAreNotCopied) {
  Strided tensor{std::vector<std::byte>(100 * 5000 * 4), 0, {100, 4000}, {5000, 1}, 4};
  const auto* const begin = tensor.memory.data();
  std::int64_t row = 0;
  tensor.bytes().for_each_piece([&](std::span<const std::byte> piece) {
    EXPECT_EQ(piece.data(), begin + row++ * 5000 * 4);
    EXPECT_EQ(piece.size(), 4000U * 4);
  });
  EXPECT_EQ(row, 100);
}

TEST(TensorBytes, OfShortRowsAreCopiedInParts) {
  const Strided tensor{std::vector<std::byte>(1000 * 1000), 0, {1000, 1000}, {1, 1000}, 1};
  tensor.bytes().for_each_piece(
      [&](std::span<const std::byte> piece) { EXPECT_LE(piece.size(), TensorBytes::kCopied); });
}

TEST(TensorBytes, OfAnEmptyPartAreNoRunsWhateverItsSizesAre) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  for (const std::vector<std::int64_t>& shape : {std::vector{kLarge, kLarge, std::int64_t{0}},
                                                 std::vector{std::int64_t{0}, kLarge, kLarge}}) {
    Observation part;
    part.global_shape = part.local_shape = shape;
    part.offset = Shape(shape.size(), 0);
    EXPECT_EQ(element_count(shape), 0);
    EXPECT_TRUE(runs_of(part).empty());
  }
}

}  // namespace
}  // namespace lockstep
