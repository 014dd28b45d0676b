// Measuring on a GPU, with a stand-in for CUDA's driver.

#include "harness/gpu/measurer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "harness/gpu/launch_plan.h"
#include "tests/gpu/standin_driver.h"

namespace lockstep::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Observation whole(std::int64_t count) {
  Observation part;
  part.dtype = "float32";
  part.global_shape = part.local_shape = {count};
  part.offset = {0};
  return part;
}

class MeasurerTest : public testing::Test {
 protected:
  MeasurerTest() {
    standin_driver() = {};
    std::iota(values_.begin(), values_.end(), 1.0F);
  }
  ~MeasurerTest() override {
    measurer_.reset();
    EXPECT_EQ(standin_driver().allocated, 0);
    standin_driver() = {};
  }

  TensorTask task(std::int64_t count) const {
    return *task_of(whole(count), reinterpret_cast<std::uint64_t>(values_.data()));
  }

  std::vector<TensorSums> measure(std::initializer_list<std::int64_t> counts) {
    std::vector<TensorTask> tasks;
    for (const std::int64_t count : counts) tasks.push_back(task(count));
    return measurer_->measure(tasks, nullptr);
  }

  std::vector<float> values_ = std::vector<float>(100000);
  std::unique_ptr<Measurer> measurer_ = std::make_unique<Measurer>();
};

double sum_of_squares(double count) { return count * (count + 1) * (2 * count + 1) / 6; }

TEST_F(MeasurerTest, WaitsOnceForAllTensors) {
  const std::vector<TensorSums> found = measure({3, 0, 100000});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].totals.floating.squares, 14);
  EXPECT_EQ(found[1].totals.floating.squares, 0);
  EXPECT_EQ(found[2].totals.floating.squares, sum_of_squares(100000));
  EXPECT_EQ(found[2].totals.floating.most, 100000);
  EXPECT_THAT(
      standin_driver().calls,
      ElementsAre("cuCtxGetCurrent", "cuCtxGetDevice", "cuModuleLoadData", "cuModuleGetFunction",
                  "cuEventCreate", "cuPointerGetAttribute", "cuPointerGetAttribute", "cuMemAlloc",
                  "cuMemHostAlloc", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync",
                  "cuEventRecord", "cuEventSynchronize"));
}

TEST_F(MeasurerTest, UsesTheSameMemoryAgain) {
  measure({100000});
  standin_driver().calls.clear();
  EXPECT_EQ(measure({7})[0].totals.floating.squares, 140);
  EXPECT_THAT(
      standin_driver().calls,
      ElementsAre("cuCtxGetCurrent", "cuPointerGetAttribute", "cuMemcpyHtoDAsync", "cuLaunchKernel",
                  "cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize"));
  const std::vector<TensorTask> many(100, task(5));
  EXPECT_EQ(measurer_->measure(many, nullptr)[99].totals.floating.squares, 55);
}

TEST_F(MeasurerTest, MeasuresMoreTensorsThanALaunchHas) {
  std::vector<TensorTask> tasks(kMostTeams + 1, task(4));
  tasks.front() = tasks.back() = task(70000);
  const std::vector<TensorSums> found = measurer_->measure(tasks, nullptr);
  EXPECT_EQ(standin_driver().launches, 2);
  EXPECT_EQ(found.size(), tasks.size());
  for (const std::size_t large : {std::size_t{0}, tasks.size() - 1}) {
    EXPECT_EQ(found[large].totals.floating.squares, sum_of_squares(70000));
  }
  for (std::size_t i = 1; i + 1 < tasks.size(); ++i) {
    ASSERT_EQ(found[i].totals.floating.squares, 30) << i;
  }
}

TEST_F(MeasurerTest, MeasuresNothing) { EXPECT_TRUE(measure({}).empty()); }

/// Another stream does not wait for the work that the tensor comes from.
TEST_F(MeasurerTest, MeasuresWhatTheJobsStreamHasWritten) {
  int stream = 0;
  const std::vector<float> written = std::exchange(values_, std::vector<float>(values_.size()));
  give_to_stream(&stream, [&] { std::ranges::copy(written, values_.begin()); });
  const std::vector<TensorTask> tasks{task(100000)};
  EXPECT_EQ(measurer_->measure(tasks, &stream)[0].totals.floating.squares, sum_of_squares(100000));

  std::vector<float> copied(written.size());
  give_to_stream(&stream, [&] { values_[7] = -1; });
  measurer_->copy(reinterpret_cast<std::uint64_t>(values_.data()),
                  std::as_writable_bytes(std::span(copied)), &stream);
  EXPECT_EQ(copied, values_);
  EXPECT_EQ(copied[7], -1);
}

TEST_F(MeasurerTest, CopiesInParts) {
  std::vector<std::uint32_t> from((std::size_t{16} << 20) / 4 + 1000);
  std::iota(from.begin(), from.end(), 0U);
  std::vector<std::uint32_t> to(from.size());
  measurer_->copy(reinterpret_cast<std::uint64_t>(from.data()),
                  std::as_writable_bytes(std::span(to)), nullptr);
  EXPECT_EQ(from, to);
  EXPECT_EQ(std::ranges::count(standin_driver().calls, "cuMemcpyDtoHAsync"), 2);
}

/// Each failure has one reason, which stays, and nothing is left allocated.
class EachFailure : public MeasurerTest, public testing::WithParamInterface<const char*> {};

TEST_P(EachFailure, IsTheReasonFromThenOn) {
  standin_driver().failing = GetParam();
  const std::string reason = std::string(GetParam()) + " of CUDA's driver: STANDIN_ERROR";
  if (std::string(GetParam()) == "cuModuleLoadData") {
    EXPECT_THROW(measure({100}), Unavailable);  // or the build has no kernel
  } else {
    EXPECT_THAT([&] { measure({100}); }, ThrowsMessage<Unavailable>(reason));
  }
  standin_driver().failing.clear();
  standin_driver().calls.clear();
  EXPECT_THROW(measure({100}), Unavailable);
  EXPECT_TRUE(standin_driver().calls.empty());
}

INSTANTIATE_TEST_SUITE_P(OfTheDriver, EachFailure,
                         testing::Values("cuCtxGetCurrent", "cuCtxGetDevice", "cuModuleLoadData",
                                         "cuModuleGetFunction", "cuEventCreate",
                                         "cuPointerGetAttribute", "cuMemAlloc", "cuMemHostAlloc",
                                         "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync",
                                         "cuEventRecord", "cuEventSynchronize"));

TEST_F(MeasurerTest, NeedsACurrentContext) {
  standin_driver().context = 0;
  EXPECT_THAT([&] { measure({100}); }, ThrowsMessage<Unavailable>("no context of CUDA is current"));
}

TEST_F(MeasurerTest, NeverReadsTheMemoryOfAnotherGpu) {
  standin_driver().on[1] = 1;
  EXPECT_THAT([&] { measure({100}); }, ThrowsMessage<Unavailable>(HasSubstr("on another GPU")));
  EXPECT_EQ(standin_driver().launches, 0);
  std::byte byte;
  EXPECT_THROW(measurer_->copy(1, {&byte, 1}, nullptr), Unavailable);
}

TEST_F(MeasurerTest, HasAModuleInEachContext) {
  measure({100});
  standin_driver().context = 2;
  measure({100});
  standin_driver().context = 1;
  measure({100});
  EXPECT_EQ(std::ranges::count(standin_driver().calls, "cuModuleLoadData"), 2);
}

}  // namespace
}  // namespace lockstep::gpu
