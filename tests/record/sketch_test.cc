#include "harness/record/sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "harness/record/measure.h"
#include "harness/record/splitmix64.h"
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
  tensor.offset.assign(shape.size(), 0);
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
      shard.offset[dimension] = is_second ? cut : 0;
      shard.local_shape[dimension] = is_second ? shape[dimension] - cut : cut;
      std::vector<float> part;
      for (std::int64_t i = 0; i < shard.local_shape[0]; ++i) {
        for (std::int64_t j = 0; j < shard.local_shape[1]; ++j) {
          part.push_back(values[std::size_t((shard.offset[0] + i) * 30 + shard.offset[1] + j)]);
        }
      }
      sum += sketch_of_values(shard, part);
    }
    for (std::size_t lane = 0; lane < Sketch::kLanes; ++lane) {
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

/// Their sketches have the numbers of rows in the whole journal.
TEST_F(SketchFile, OfAnOlderProgramIsRead) {
  {
    SketchWriter writer(path(), "rank 0 of a job");
    writer.append(1, {{0, sketch(1)}});
    writer.append(2, {{4, sketch(2)}, {6, sketch(-2)}});
  }
  std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::string_view("lockstep sketches ").size()));
  file.put('1');
  file.close();
  const auto second = SketchReader(path()).at(2, 4);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second.at(4), sketch(2));
  EXPECT_EQ(second.at(6), sketch(-2));
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
              testing::HasSubstr("the header of sketches"));
}

/// As a rank leaves it that is killed at once.
TEST_F(SketchFile, WithoutAWholeHeaderCountsAsMissing) {
  EXPECT_TRUE(SketchReader(path()).empty());
  std::ofstream(path()) << "lockstep sketches 2\n";
  EXPECT_TRUE(SketchReader(path()).empty());
}

}  // namespace
}  // namespace lockstep
