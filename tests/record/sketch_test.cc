#include "harness/record/sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

#include "harness/record/measure.h"
#include "harness/record/splitmix64.h"
#include "tests/record/shape_with.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

Observation whole(const std::vector<std::int64_t>& shape, const char* dtype = "float32") {
  Observation tensor;
  tensor.name = "weight";
  tensor.dtype = dtype;
  tensor.global_shape = tensor.local_shape = shape;
  tensor.offset = Shape(shape.size(), 0);
  return tensor;
}

template <class T>
Sketch sketch_of_values(const Observation& tensor, const std::vector<T>& values) {
  return sketch_of(tensor, std::as_bytes(std::span(values)));
}

std::vector<float> drawn(std::size_t count, unsigned generator) {
  std::mt19937 random(generator);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

double exact_norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * double(value);
  return std::sqrt(sum);
}

TEST(SketchOf, AtMost64ComponentsIsExact) {
  const std::vector<float> values{3, -4, 0};
  EXPECT_EQ(norm_of(sketch_of_values(whole({3}), values)), 5);
  const auto many = drawn(64, 1);
  EXPECT_NEAR(norm_of(sketch_of_values(whole({64}), many)), exact_norm(many), 1e-12);
}

TEST(SketchOf, EstimatesNormsWithTheStatedError) {
  int outside = 0;
  double bias = 0;
  constexpr int kTensors = 400;
  for (int i = 0; i < kTensors; ++i) {
    const auto values = drawn(5000, static_cast<unsigned>(i));
    const double relative =
        norm_of(sketch_of_values(whole({50, 100}), values)) / exact_norm(values) - 1;
    outside += std::abs(relative) > kSketchError ? 1 : 0;
    bias += relative / kTensors;
  }
  EXPECT_LT(outside, kTensors / 20);
  EXPECT_NEAR(bias, 0, 0.02);
}

/// One large column of a matrix whose width is the number of lanes: without the shift of each block
/// all its elements would share a lane.
TEST(SketchOf, EstimatesAColumnToo) {
  std::vector<float> values(64 * 4096);
  const auto column = drawn(4096, 3);
  for (std::size_t row = 0; row < column.size(); ++row) values[64 * row + 5] = column[row];
  const double relative =
      norm_of(sketch_of_values(whole({4096, 64}), values)) / exact_norm(values) - 1;
  EXPECT_LT(std::abs(relative), kSketchError);
}

/// Equal signs in all blocks would add the elements of a lane instead of their squares.
TEST(SketchOf, EstimatesAConstantToo) {
  const std::vector<float> values(100000, 0.5F);
  const double relative =
      norm_of(sketch_of_values(whole({100000}), values)) / exact_norm(values) - 1;
  EXPECT_LT(std::abs(relative), kSketchError);
}

/// A matrix of zeros whose elements differ in `rows` rows and `columns` columns from a place on.
std::vector<float> changed(std::int64_t side, std::int64_t rows, std::int64_t columns,
                           std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(side * side));
  const auto drawn = [&](std::int64_t number) {
    return splitmix64(seed * kSplitmixStep + static_cast<std::uint64_t>(number));
  };
  const auto row = static_cast<std::int64_t>(drawn(-1) % std::uint64_t(side - rows + 1));
  const auto column = static_cast<std::int64_t>(drawn(-2) % std::uint64_t(side - columns + 1));
  for (std::int64_t i = row; i < row + rows; ++i) {
    for (std::int64_t j = column; j < column + columns; ++j) {
      const std::int64_t at = i * side + j;
      values[std::size_t(at)] = float(std::int32_t(drawn(at))) * 0x1p-31F;
    }
  }
  return values;
}

/// Of tensors of a million elements and more, whatever the part in which they differ.
TEST(SketchOf, KeepsTheStatedErrorsWhereverTensorsDiffer) {
  struct Change {
    std::int64_t rows, columns;
    int trials;
  };
  for (const std::int64_t side : {1000, 1024}) {
    const std::vector<Change> changes{
        {1, side, 60}, {side, 1, 60}, {32, 32, 60}, {1, 1, 10}, {side, side, 10}};
    int trials = 0;
    int beyond_95 = 0;
    int beyond_99 = 0;
    for (const Change& change : changes) {
      for (int i = 0; i < change.trials; ++i) {
        const auto values = changed(side, change.rows, change.columns, std::uint64_t(++trials));
        Observation tensor = whole({side, side});
        const Sketch sketch = measure_and_sketch(tensor, std::as_bytes(std::span(values)));
        const double error = std::abs(norm_of(sketch) / tensor.statistics.norm - 1);
        beyond_95 += error > kSketchError ? 1 : 0;
        beyond_99 += error > kSketchLargeError ? 1 : 0;
      }
    }
    EXPECT_LE(beyond_95, trials / 20);
    EXPECT_LE(beyond_99, trials / 100);
  }
}

/// Two components that go to the same lane with the same sign: to exchange them changes nothing.
struct Blindness {
  bool of_first;
  bool of_second;
};

Blindness blindness(std::uint64_t one, std::uint64_t other) {
  const SketchBlock a = sketch_block(one / 64), b = sketch_block(other / 64);
  const std::uint64_t i = one % 64, k = other % 64;
  const bool has_same_signs = (a.signs >> i & 1) == (b.signs >> k & 1);
  const bool has_same_turn = a.is_second_negative == b.is_second_negative;
  return {(i ^ a.lane) == (k ^ b.lane) && has_same_signs,
          (i ^ a.second_lane) == (k ^ b.second_lane) && has_same_signs == has_same_turn};
}

constexpr std::uint64_t kSide = 1000;

/// Pairs of a matrix of a million components, chosen in a way that faults have.
enum class Pairs { any, of_row, of_column, of_neighbours, of_column_of_powers };

std::pair<std::uint64_t, std::uint64_t> chosen(Pairs pairs, std::uint64_t number) {
  const auto drawn = [&](std::uint64_t k) {
    return splitmix64((3 * number + k) * kSplitmixStep + static_cast<std::uint64_t>(pairs));
  };
  const std::uint64_t row = drawn(0) % kSide, column = drawn(1) % kSide, other = drawn(2) % kSide;
  const std::uint64_t at = row * kSide + column;
  switch (pairs) {
    case Pairs::any:
      return {at, drawn(2) % (kSide * kSide)};
    case Pairs::of_row:
      return {at, row * kSide + other};
    case Pairs::of_column:
      return {at, other * kSide + column};
    case Pairs::of_neighbours:
      return {at, at + kSide};
    case Pairs::of_column_of_powers:  // whose width is that of many blocks
      break;
  }
  return {row * 1024 + column, other * 1024 + column};
}

TEST(SketchOf, MissesTheExchangeOfOnePairInManyThousands) {
  for (const Pairs pairs : {Pairs::any, Pairs::of_row, Pairs::of_column, Pairs::of_neighbours,
                            Pairs::of_column_of_powers}) {
    constexpr std::uint64_t kPairs = 1 << 21;
    int by_one = 0, by_both = 0;
    for (std::uint64_t number = 0; number < kPairs; ++number) {
      const auto [one, other] = chosen(pairs, number);
      if (one == other) continue;
      const Blindness blind = blindness(one, other);
      by_one += blind.of_first ? 1 : 0;
      by_both += blind.of_first && blind.of_second ? 1 : 0;
    }
    std::printf("exchanges %d: unseen %d by the first sketch, %d by both, of %d\n", int(pairs),
                by_one, by_both, int(kPairs));
    EXPECT_LE(by_one, kPairs / 100);
    EXPECT_LE(by_both, kPairs / 10000);
  }
}

/// A bias, a norm, a head: all 130,816 pairs.
TEST(SketchOf, SeesEveryExchangeInAGroupOfBlocks) {
  for (std::uint64_t one = 0; one < 512; ++one) {
    for (std::uint64_t other = one + 1; other < 512; ++other) {
      const Blindness blind = blindness(one, other);
      ASSERT_FALSE(blind.of_first && blind.of_second) << one << " " << other;
    }
  }
}

/// Of a pair that one sketch does not see, the other one shows the size, though not all of it.
TEST(SketchOf, EstimatesAnExchangeThatOneSketchDoesNotSee) {
  std::vector<float> values(4096);
  values[0] = 1;
  int tried = 0;
  for (std::uint64_t other = 1; other < 4096; ++other) {
    const Blindness blind = blindness(0, other);
    if (blind.of_first == blind.of_second) continue;
    std::vector<float> exchanged(4096);
    exchanged[other] = 1;
    Sketch apart = sketch_of_values(whole({4096}), exchanged);
    apart -= sketch_of_values(whole({4096}), values);
    EXPECT_EQ(norm_of(apart), 1) << other;  // of the root of 2
    ++tried;
  }
  EXPECT_GT(tried, 30);
}

/// Parts whose sums round: an exchange of the smallest size is hidden by that alone.
TEST(SketchOf, SeesAnExchangeAcrossLayoutsBeyondTheirRounding) {
  const std::vector<std::int64_t> shape{400, 250};
  const auto values = drawn(100000, 9);
  auto exchanged = values;
  std::swap(exchanged[3], exchanged[70000]);
  const Sketch one = sketch_of_values(whole(shape), values);
  const auto in_parts = [&](const std::vector<float>& all) {
    Sketch sum;
    for (const std::int64_t first : {0, 150, 300}) {
      Observation part = whole(shape);
      part.offset = with(part.offset, 0, first);
      part.local_shape = with(part.local_shape, 0, std::min<std::int64_t>(150, 400 - first));
      const auto begin = all.begin() + first * 250;
      sum += sketch_of_values(part, std::vector(begin, begin + part.local_shape[0] * 250));
    }
    sum -= one;
    return norm_of(sum);
  };
  EXPECT_LE(in_parts(values), 1e-14 * norm_of(one));
  EXPECT_NEAR(in_parts(exchanged),
              std::sqrt(2) * std::abs(double(values[3]) - double(values[70000])), 1e-9);
}

TEST(SketchOf, ADifferenceIsTheDifference) {
  const auto before = drawn(1000, 1);
  auto after = before;
  after[777] += 0.25F;
  Sketch update = sketch_of_values(whole({1000}), after);
  update -= sketch_of_values(whole({1000}), before);
  EXPECT_NEAR(norm_of(update), double(after[777]) - double(before[777]), 1e-12);
}

TEST(SketchOf, ShardsAddUpToTheWhole) {
  const std::vector<std::int64_t> shape{7, 30};
  const auto values = drawn(210, 5);
  const Sketch expected = sketch_of_values(whole(shape), values);
  for (const std::size_t dimension : {0U, 1U}) {
    Sketch sum;
    for (const bool is_second : {false, true}) {
      Observation shard = whole(shape);
      const std::int64_t cut = dimension == 0 ? 3 : 11;
      shard.offset = with(shard.offset, dimension, is_second ? cut : 0);
      shard.local_shape =
          with(shard.local_shape, dimension, is_second ? shape[dimension] - cut : cut);
      std::vector<float> part;
      for (std::int64_t i = 0; i < shard.local_shape[0]; ++i) {
        for (std::int64_t j = 0; j < shard.local_shape[1]; ++j) {
          part.push_back(values[std::size_t((shard.offset[0] + i) * 30 + shard.offset[1] + j)]);
        }
      }
      sum += sketch_of_values(shard, part);
    }
    for (std::size_t lane = 0; lane < sum.lanes.size(); ++lane) {
      EXPECT_NEAR(sum.lanes[lane], expected.lanes[lane], 1e-12);
    }
  }
}

TEST(SketchOf, ComponentsThatAreNotFiniteAreZero) {
  EXPECT_EQ(norm_of(sketch_of_values(whole({4}), std::vector<float>{NAN, 3, -INFINITY, 4})), 5);
}

TEST(SketchOf, OtherDtypesAreTheSame) {
  const std::vector<double> doubles{3, 4};
  EXPECT_EQ(norm_of(sketch_of_values(whole({2}, "float64"), doubles)), 5);
  EXPECT_EQ(norm_of(sketch_of_values(whole({1}, "complex128"), doubles)), 5);
  const std::vector<std::uint16_t> bfloats{0x4040, 0x4080};
  EXPECT_EQ(norm_of(sketch_of_values(whole({2}, "bfloat16"), bfloats)), 5);
}

class SketchFile : public testing::Test {
 protected:
  void write(int steps) const {
    SketchWriter writer(path(), "rank 0 of a job");
    for (std::int64_t step = 1; step <= steps; ++step) {
      writer.append(step, {{0, sketch(step)}, {1, sketch(-step)}});
    }
    EXPECT_EQ(writer.bytes(), fs::file_size(path()));
  }
  static Sketch sketch(std::int64_t step) {
    return sketch_of_values(whole({1}), std::vector<float>{static_cast<float>(step)});
  }
  fs::path path() const { return sketch_file(folder_.path(), 0); }

 private:
  TemporaryFolder folder_;
};

TEST_F(SketchFile, IsReadStepByStep) {
  write(3);
  const SketchReader reader(path());
  EXPECT_EQ(reader.identity(), "rank 0 of a job");
  const auto second = reader.at(2, 4);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second.at(4), sketch(2));
  EXPECT_EQ(second.at(5), sketch(-2));
  EXPECT_TRUE(reader.at(4, 8).empty());
}

TEST_F(SketchFile, IsThinned) {
  write(5);
  thin_sketches(path(), [](std::int64_t step) { return step % 2 == 0; });
  const SketchReader reader(path());
  EXPECT_EQ(reader.identity(), "rank 0 of a job");
  for (std::int64_t step = 1; step <= 5; ++step) {
    const auto found = reader.at(step, 0);
    ASSERT_EQ(found.size(), step % 2 == 0 ? 2U : 0U) << step;
    if (found.empty()) continue;
    EXPECT_EQ(found.at(1), sketch(-step));
  }
  thin_sketches(path().parent_path() / "missing", [](std::int64_t) { return true; });
}

TEST_F(SketchFile, GoesOnInSegmentsOfWhichSomeAreMissing) {
  SketchWriter(path(), "rank 0 of a job").append(1, {{0, sketch(1)}});
  SketchWriter(segment_file(path(), 3), "rank 0 of a job").append(7, {{0, sketch(7)}});
  const SketchReader reader(path(), 3);
  EXPECT_EQ(reader.at(1, 0).at(0), sketch(1));
  EXPECT_EQ(reader.at(7, 60).at(60), sketch(7));
  EXPECT_TRUE(SketchReader(path(), 2).at(7, 60).empty());
  SketchWriter(segment_file(path(), 2), "rank 1 of a job").append(4, {{0, sketch(4)}});
  EXPECT_THAT(refusal_of(segment_file(path(), 2), [&] { SketchReader(path(), 3); }),
              testing::HasSubstr("sketches of rank 0 of a job"));
}

TEST_F(SketchFile, LeavesOutATornEntry) {
  write(2);
  for (int cut = 1; cut < 1000; cut += 97) {
    fs::resize_file(path(), fs::file_size(path()) - static_cast<std::uintmax_t>(cut > 1 ? 97 : 1));
    const SketchReader reader(path());
    EXPECT_EQ(reader.at(1, 0).size(), 2U);
    EXPECT_TRUE(reader.at(2, 2).empty());
  }
}

TEST_F(SketchFile, RefusesADamagedEntry) {
  write(2);
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-8, std::ios::end);
  file.put('x');
  file.close();
  const SketchReader reader(path());
  EXPECT_EQ(reader.at(1, 0).size(), 2U);
  EXPECT_THAT(refusal_of(path(), [&] { reader.at(2, 2); }), testing::HasSubstr("another checksum"));
}

TEST_F(SketchFile, RefusesAnotherFormat) {
  std::ofstream(path()) << "step,row\n" << std::string(600, '1') << "\n";
  EXPECT_THAT(refusal_of(path(), [&] { SketchReader reader(path()); }),
              testing::HasSubstr("the header of a file of sketches"));
}

TEST_F(SketchFile, OfAnotherVersionIsRefused) {
  const auto refusal_of_version = [&](const std::string& version) {
    std::ofstream(path()) << "lockstep sketches " << version << "\nrank 0\n" << std::string(600, 0);
    return refusal_of(path(), [&] { SketchReader reader(path()); });
  };
  EXPECT_EQ(refusal_of_version("2"),
            " is a file of sketches of version '2', but this program reads version 3: use the "
            "Lockstep that wrote it, or record the run again.");
  for (const std::string version : {"0", "1", "3.1", "x", "99999999999999999999"}) {
    EXPECT_THAT(refusal_of_version(version), testing::HasSubstr("of version '" + version + "'"));
  }
  EXPECT_THAT(refusal_of_version(""), testing::HasSubstr("without a version, but"));
}

/// As a rank leaves it that is killed at once.
TEST_F(SketchFile, WithoutAWholeHeaderCountsAsMissing) {
  EXPECT_TRUE(SketchReader(path()).empty());
  std::ofstream(path()) << "lockstep sketches 3\n";
  EXPECT_TRUE(SketchReader(path()).empty());
}

}  // namespace
}  // namespace lockstep
