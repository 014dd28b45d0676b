// The program of the GPU's kernel, run on the CPU, gives the values of the scalar code.

#include "tests/gpu/emulated_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "harness/gpu/block_plan.h"
#include "harness/gpu/component.h"
#include "harness/gpu/launch_plan.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"
#include "harness/record/vector_target.h"

namespace lockstep::gpu {
namespace {

constexpr DType kAll[] = {DType::float32,         DType::float64,       DType::float16,
                          DType::bfloat16,        DType::int8,          DType::int16,
                          DType::int32,           DType::int64,         DType::uint8,
                          DType::boolean,         DType::complex64,     DType::complex128,
                          DType::float8_e4m3fn,   DType::float8_e5m2,   DType::float8_e4m3fnuz,
                          DType::float8_e5m2fnuz, DType::float8_e8m0fnu};

bool is_floating(DType dtype) { return unit_roundoff(component_type(dtype)) > 0; }

using Bytes = std::vector<std::byte>;

/// Elements whose squares and sums are exact in float64, so each order of additions gives the same
/// bits: those from -8 to 8.
Bytes exact_bytes(DType dtype, std::size_t count, std::mt19937_64& random) {
  const DType component = component_type(dtype);
  const std::size_t size = item_size(component);
  std::vector<std::uint64_t> known;  // bit patterns
  const std::uint64_t patterns = std::uint64_t{1} << std::min<std::size_t>(8 * size, 16);
  for (std::uint64_t high = 0; high < patterns; ++high) {
    const std::uint64_t bits = size <= 2 ? high : high << (8 * size - 16);
    const double value = component_value(component, reinterpret_cast<const std::byte*>(&bits));
    if (std::abs(value) <= 8 && value == std::trunc(value)) known.push_back(bits);
  }
  Bytes bytes(count * item_size(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::memcpy(bytes.data() + at, &known[random() % known.size()], size);
  }
  return bytes;
}

/// Random bits: NaNs, infinities and subnormal numbers among them, more than a few if
/// `has_special`.
Bytes any_bytes(DType dtype, std::size_t count, std::mt19937_64& random, bool has_special) {
  const std::size_t size = item_size(component_type(dtype));
  Bytes bytes(count * item_size(dtype));
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    std::uint64_t bits = random();
    if (has_special && random() % 4 == 0) bits |= std::uint64_t{0x7ff0} << (8 * size - 16) % 64;
    if (has_special && random() % 4 == 0) bits &= ~(std::uint64_t{0x7f} << (8 * size - 8) % 64);
    if (has_special && random() % 9 == 0) bits = std::uint64_t{1} << (8 * size - 1);  // -0.0
    std::memcpy(bytes.data() + at, &bits, size);
  }
  return bytes;
}

Observation part_of(DType dtype, std::vector<std::int64_t> global, std::vector<std::int64_t> offset,
                    std::vector<std::int64_t> local) {
  Observation part;
  part.dtype = name(dtype);
  part.global_shape = std::move(global);
  part.offset = std::move(offset);
  part.local_shape = std::move(local);
  return part;
}

Observation whole(DType dtype, std::int64_t count) { return part_of(dtype, {count}, {0}, {count}); }

/// The results of one launch. Its teams run in a random order unless `seed` is 0.
std::vector<TensorSums> launch(std::span<const TensorTask> tasks, unsigned seed = 0) {
  std::vector<TensorSums> all;
  while (!tasks.empty()) {
    const LaunchPlan plan = take_launch(tasks);
    const std::size_t teams = plan.tasks_of_teams.size();
    std::vector<std::uint32_t> finished(plan.tasks.size());
    std::vector<TensorSums> partials(teams);
    std::vector<TensorSums> results(plan.tasks.size());
    std::vector<std::uint32_t> order(teams);
    std::iota(order.begin(), order.end(), 0U);
    if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    run_emulated({plan.tasks.data(), plan.tasks_of_teams.data(), finished.data(), partials.data(),
                  results.data()},
                 order);
    all.insert(all.end(), results.begin(), results.end());
  }
  return all;
}

TensorTask task_at(const ObservedTensor& part, const std::byte* data) {
  const auto task = task_of(part, reinterpret_cast<std::uint64_t>(data));
  EXPECT_TRUE(task);
  return *task;
}

TensorSums launched(const ObservedTensor& part, const std::byte* data) {
  const TensorTask task = task_at(part, data);
  return launch({&task, 1}).at(0);
}

/// The sums of absolute values in each lane of the sketch, which bound its rounding.
Sketch absolute_lanes(const Observation& part, std::span<const std::byte> bytes) {
  const DType dtype = *parse<DType>(part.dtype);
  const DType component = component_type(dtype);
  Sketch sums;
  std::size_t at = 0;
  for (const Run& run : runs_of(part)) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(run.length) * components(dtype); ++i) {
      const std::uint64_t place = static_cast<std::uint64_t>(run.begin) * components(dtype) + i;
      const double value = component_value(component, bytes.data() + at);
      if (std::isfinite(value)) {
        const SketchBlock block = sketch_block(place / 64);
        sums.lanes[place % 64 ^ block.lane] += std::abs(value);
        sums.lanes[64 + (place % 64 ^ block.second_lane)] += std::abs(value);
      }
      at += item_size(component);
    }
  }
  return sums;
}

/// Compares a result with the scalar code. Sums of floating numbers may differ by the rounding of
/// another order of additions, at most; if `is_exact` not at all.
void expect_defined(Observation part, std::span<const std::byte> bytes, const TensorSums& found,
                    bool is_exact = false) {
  const DType dtype = *parse<DType>(part.dtype);
  use_target(*supported_targets().back());
  const MeasuredSums measured = measured_sums(component_type(dtype), found);
  const bool is_read_again = needs_bytes(dtype, measured.sums);
  EXPECT_TRUE(!is_read_again || component_type(dtype) == DType::float64);
  const Statistics statistics = lockstep::statistics(
      dtype, is_read_again ? bytes : std::span<const std::byte>(), measured.sums);
  const Sketch sketch = measure_and_sketch(part, bytes);
  EXPECT_EQ(to_text(measured.digest), to_text(part.digest));
  EXPECT_EQ(statistics.non_finite, part.statistics.non_finite);
  EXPECT_EQ(to_text(statistics.minimum), to_text(part.statistics.minimum));
  EXPECT_EQ(to_text(statistics.maximum), to_text(part.statistics.maximum));
  const double additions = static_cast<double>(bytes.size() / item_size(component_type(dtype)));
  const double bound = is_exact || !is_floating(dtype) ? 0 : additions * 0x1p-53;
  if (part.statistics.norm == INFINITY) {
    EXPECT_EQ(statistics.norm, INFINITY);
  } else {
    EXPECT_LE(std::abs(statistics.norm - part.statistics.norm), bound * part.statistics.norm);
  }
  if (!is_floating(dtype)) return;
  const Sketch absolute = absolute_lanes(part, bytes);
  for (std::size_t lane = 0; lane < sketch.lanes.size(); ++lane) {
    if (!std::isfinite(absolute.lanes[lane])) continue;  // overflows in one order, perhaps
    ASSERT_LE(std::abs(measured.sums.lanes[lane] - sketch.lanes[lane]),
              2 * bound * absolute.lanes[lane])
        << "lane " << lane;
  }
}

class EmulatedKernel : public testing::Test {
 protected:
  ~EmulatedKernel() override { use_target(*supported_targets().front()); }
};

TEST_F(EmulatedKernel, ReadsEachBitPattern) {
  for (const DType dtype : kAll) {
    if (components(dtype) == 2) continue;
    with_component(dtype, [&](auto component) {
      using C = decltype(component);
      std::mt19937_64 random(1);
      for (int i = 0; i < (1 << 16); ++i) {
        const auto bits = static_cast<typename C::Bits>(
            sizeof(typename C::Bits) <= 2 ? static_cast<std::uint64_t>(i) : random());
        const double found = static_cast<double>(C::value(bits));
        const double expected = component_value(dtype, reinterpret_cast<const std::byte*>(&bits));
        ASSERT_EQ(std::isfinite(found), std::isfinite(expected)) << name(dtype) << " " << i;
        if (!std::isfinite(expected)) continue;
        ASSERT_EQ(found, expected) << name(dtype) << " " << i;
      }
    });
  }
}

TEST_F(EmulatedKernel, GivesTheValuesOfTheScalarCode) {
  std::mt19937_64 random(1);
  for (const DType dtype : kAll) {
    for (const std::int64_t count : {0, 1, 2, 3, 31, 63, 64, 65, 127, 1000, 1023, 1024, 1025, 4097,
                                     16383, 16384, 16385, 50001}) {
      for (const std::int64_t begin : {0, 1, 7, 63, 64, 1023, 70001}) {
        if (count > 5000 && begin > 1) continue;
        SCOPED_TRACE(testing::Message() << name(dtype) << ", " << count << " from " << begin);
        const Observation part = part_of(dtype, {begin + count + 5}, {begin}, {count});
        for (const bool has_special : {false, true}) {
          const Bytes any = any_bytes(dtype, static_cast<std::size_t>(count), random, has_special);
          expect_defined(part, any, launched(part, any.data()));
        }
        const Bytes exact = exact_bytes(dtype, static_cast<std::size_t>(count), random);
        expect_defined(part, exact, launched(part, exact.data()), true);
      }
    }
  }
}

TEST_F(EmulatedKernel, GivesTheSameWhereverTheBytesLie) {
  std::mt19937_64 random(2);
  for (const DType dtype : kAll) {
    const Bytes bytes = any_bytes(dtype, 3000, random, true);
    const Observation part = part_of(dtype, {4000}, {3}, {3000});
    std::vector<std::byte> moved(bytes.size() + 128);
    std::byte* const aligned =
        moved.data() + (64 - reinterpret_cast<std::uintptr_t>(moved.data()) % 64);
    TensorSums first;
    for (std::ptrdiff_t shift = 0; shift < 33; ++shift) {
      std::copy(bytes.begin(), bytes.end(), aligned + shift);
      const TensorSums found = launched(part, aligned + shift);
      if (shift == 0) first = found;
      EXPECT_EQ(std::memcmp(&found, &first, sizeof found), 0) << name(dtype) << ", " << shift;
    }
    expect_defined(part, bytes, first);
  }
}

/// A GPU ends the job at a load that is not aligned.
TEST_F(EmulatedKernel, LoadsPairsOnlyWhereTheyAreAligned) {
  for (const DType dtype : kAll) {
    const auto size = static_cast<std::uint32_t>(item_size(component_type(dtype)));
    int plain = 0;
    for (std::uint64_t data = 4096; data < 4096 + 33; ++data) {
      for (const std::int64_t begin : {0, 1, 2, 3, 64, 65}) {
        const auto task = task_of(part_of(dtype, {1000}, {begin}, {900}), data);
        const BlockPlan plan = plan_of(*task, size, 3);
        if (!plan.is_plain) continue;
        ++plain;
        EXPECT_EQ(plan.data % (2 * size), 0U) << name(dtype) << " at " << data << ", " << begin;
      }
    }
    EXPECT_GT(plain, 0);
  }
}

/// Tensors of all types and sizes in one launch, whose teams may finish in any order.
TEST_F(EmulatedKernel, GivesTheSameInWhateverOrderTheTeamsRun) {
  std::mt19937_64 random(3);
  std::vector<Observation> parts;
  std::vector<Bytes> bytes;
  std::vector<TensorTask> tasks;
  for (const DType dtype : kAll) {
    for (const std::int64_t count : {0, 5, 40000, 150001}) {
      parts.push_back(whole(dtype, count));
      bytes.push_back(any_bytes(dtype, static_cast<std::size_t>(count), random, true));
      tasks.push_back(task_at(parts.back(), bytes.back().data()));
    }
  }
  const std::vector<TensorSums> first = launch(tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    SCOPED_TRACE(testing::Message() << *parts[i].dtype << " of " << bytes[i].size() << " bytes");
    expect_defined(parts[i], bytes[i], first[i]);
  }
  for (const unsigned seed : {1U, 2U, 3U}) {
    const std::vector<TensorSums> found = launch(tasks, seed);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      EXPECT_EQ(std::memcmp(&found[i], &first[i], sizeof first[i]), 0) << i << ", seed " << seed;
    }
  }
}

/// A part of a tensor in 3 dimensions, cut at random, whose runs may begin anywhere in blocks.
TEST_F(EmulatedKernel, MeasuresPartsWhereTheyLieInTheWhole) {
  std::mt19937_64 random(4);
  int refused = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const DType dtype = kAll[random() % std::size(kAll)];
    std::vector<std::int64_t> global;
    std::vector<std::int64_t> offset;
    std::vector<std::int64_t> local;
    for (int d = 0; d < 3; ++d) {
      global.push_back(1 + static_cast<std::int64_t>(random() % (d == 2 ? 200 : 12)));
      const bool is_cut = random() % 2 == 0;
      offset.push_back(is_cut ? static_cast<std::int64_t>(random()) % global[d] : 0);
      if (offset[d] < 0) offset[d] = -offset[d];
      const std::int64_t rest = global[d] - offset[d];
      local.push_back(is_cut ? 1 + static_cast<std::int64_t>(random() % 1000) % rest : rest);
    }
    const Observation part = part_of(dtype, global, offset, local);
    const auto count = static_cast<std::size_t>(element_count(local));
    const Bytes any = any_bytes(dtype, count, random, true);
    const Bytes exact = exact_bytes(dtype, count, random);
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << name(dtype));
    if (!task_of(part, 0)) {
      ++refused;
      continue;
    }
    expect_defined(part, any, launched(part, any.data()));
    expect_defined(part, exact, launched(part, exact.data()), true);
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 200);
}

/// Exact sums: the shards of a matrix, cut at a column, add up to the whole, bit for bit.
TEST_F(EmulatedKernel, ShardsAddUpToTheWhole) {
  constexpr std::int64_t kRows = 301;
  constexpr std::int64_t kColumns = 211;
  std::mt19937_64 random(5);
  for (const DType dtype : kAll) {
    const auto item = static_cast<std::int64_t>(item_size(dtype));
    const Bytes bytes = exact_bytes(dtype, kRows * kColumns, random);
    const TensorSums expected = launched(whole(dtype, kRows * kColumns), bytes.data());
    for (const std::int64_t cut : {1, 64, 100, 210}) {
      Digest digest;
      Sketch sketch;
      for (const bool is_second : {false, true}) {
        const std::int64_t first = is_second ? cut : 0;
        const std::int64_t columns = is_second ? kColumns - cut : cut;
        Bytes shard;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const auto begin = bytes.begin() + (row * kColumns + first) * item;
          shard.insert(shard.end(), begin, begin + columns * item);
        }
        const Observation part = part_of(dtype, {kRows, kColumns}, {0, first}, {kRows, columns});
        const MeasuredSums found =
            measured_sums(component_type(dtype), launched(part, shard.data()));
        digest += found.digest;
        sketch += {found.sums.lanes};
      }
      EXPECT_EQ(digest.low, expected.totals.low) << name(dtype) << ", cut at " << cut;
      EXPECT_EQ(digest.high, expected.totals.high);
      EXPECT_TRUE(std::equal(sketch.lanes.begin(), sketch.lanes.end(), expected.lanes[0]));
    }
  }
}

/// Each launch has as many teams as its memory holds; a part gives the same in any of them.
TEST_F(EmulatedKernel, DividesManyTensorsIntoLaunches) {
  std::mt19937_64 random(6);
  const Bytes bytes = any_bytes(DType::float32, 100, random, false);
  const std::vector<TensorTask> tasks(2 * kMostTeams + 7,
                                      task_at(whole(DType::float32, 100), bytes.data()));
  std::span<const TensorTask> left = tasks;
  for (const std::size_t expected :
       {std::size_t{kMostTeams}, std::size_t{kMostTeams}, std::size_t{7}}) {
    EXPECT_EQ(take_launch(left).tasks.size(), expected);
  }
  EXPECT_TRUE(left.empty());
}

/// The number of teams of a part is bounded, and each has its share.
TEST_F(EmulatedKernel, CoversHugeTensors) {
  for (const std::int64_t count : {std::int64_t{1} << 20, (std::int64_t{1} << 25) + 1,
                                   std::int64_t{1} << 31, (std::int64_t{1} << 40) - 3}) {
    const TensorTask task = task_at(whole(DType::bfloat16, count), nullptr);
    EXPECT_LE(task.teams, 1024U);
    const std::uint64_t covered = std::uint64_t{task.teams} * task.turns * 256 * 64;
    EXPECT_GE(covered, static_cast<std::uint64_t>(count));
    EXPECT_LE(covered, static_cast<std::uint64_t>(count) +
                           std::uint64_t{task.teams + task.turns} * 256 * 64);
  }
}

}  // namespace
}  // namespace lockstep::gpu
