// Measuring on a GPU, with a stand-in for CUDA's driver.

#include "harness/gpu/measurer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
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
    reset_standin_driver();
    std::iota(values_.begin(), values_.end(), 1.0F);
  }
  ~MeasurerTest() override {
    measurer_.reset();
    EXPECT_EQ(standin_driver().allocated, 0);
    reset_standin_driver();
  }

  TensorTask task(std::int64_t count) const {
    return *task_of(whole(count), reinterpret_cast<std::uint64_t>(values_.data()));
  }

  std::vector<TensorSums> sums_of(const Batch& batch) {
    measurer_->wait(batch);
    return {batch.sums().begin(), batch.sums().end()};
  }

  std::vector<TensorSums> measure(const std::vector<TensorTask>& tasks, void* stream = nullptr) {
    return sums_of(*measurer_->start(tasks, {}, stream));
  }

  std::vector<TensorTask> tasks(std::initializer_list<std::int64_t> counts) const {
    std::vector<TensorTask> all;
    for (const std::int64_t count : counts) all.push_back(task(count));
    return all;
  }

  DeviceBytes bytes(std::size_t begin, std::size_t count) const {
    return {reinterpret_cast<std::uint64_t>(values_.data() + begin), count * sizeof(float)};
  }

  std::unique_ptr<Batch> copy(const std::vector<DeviceBytes>& copies, void* stream = nullptr) {
    return measurer_->start({}, copies, stream);
  }

  std::vector<float> values_ = std::vector<float>(100000);
  std::unique_ptr<Measurer> measurer_ = std::make_unique<Measurer>();
};

double sum_of_squares(double count) { return count * (count + 1) * (2 * count + 1) / 6; }

TEST_F(MeasurerTest, WaitsOnceForAllTensors) {
  const std::vector<TensorSums> found = measure(tasks({3, 0, 100000}));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].totals.floating.squares, 14);
  EXPECT_EQ(found[1].totals.floating.squares, 0);
  EXPECT_EQ(found[2].totals.floating.squares, sum_of_squares(100000));
  EXPECT_EQ(found[2].totals.floating.most, 100000);
  EXPECT_THAT(standin_driver().calls,
              ElementsAre("cuCtxGetCurrent", "cuStreamIsCapturing", "cuCtxGetDevice",
                          "cuModuleLoadData", "cuModuleGetFunction", "cuPointerGetAttribute",
                          "cuPointerGetAttribute", "cuEventCreate", "cuMemAlloc", "cuMemHostAlloc",
                          "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync",
                          "cuEventRecord", "cuEventSynchronize", "cuEventQuery"));
}

TEST_F(MeasurerTest, UsesTheSameMemoryAgain) {
  measure(tasks({100000}));
  standin_driver().calls.clear();
  EXPECT_EQ(measure(tasks({7}))[0].totals.floating.squares, 140);
  EXPECT_THAT(standin_driver().calls,
              ElementsAre("cuCtxGetCurrent", "cuStreamIsCapturing", "cuPointerGetAttribute",
                          "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync",
                          "cuEventRecord", "cuEventSynchronize", "cuEventQuery"));
  const std::vector<TensorTask> many(100, task(5));
  EXPECT_EQ(measure(many)[99].totals.floating.squares, 55);
}

TEST_F(MeasurerTest, MeasuresMoreTensorsThanALaunchHas) {
  std::vector<TensorTask> many(kMostTeams + 1, task(4));
  many.front() = many.back() = task(70000);
  const std::vector<TensorSums> found = measure(many);
  EXPECT_EQ(standin_driver().launches, 2);
  EXPECT_EQ(found.size(), many.size());
  for (const std::size_t large : {std::size_t{0}, many.size() - 1}) {
    EXPECT_EQ(found[large].totals.floating.squares, sum_of_squares(70000));
  }
  for (std::size_t i = 1; i + 1 < many.size(); ++i) {
    ASSERT_EQ(found[i].totals.floating.squares, 30) << i;
  }
}

TEST_F(MeasurerTest, MeasuresNothing) { EXPECT_TRUE(measure({}).empty()); }

/// Another stream does not wait for the work that the tensor comes from.
TEST_F(MeasurerTest, MeasuresWhatTheJobsStreamHasWritten) {
  int stream = 0;
  const std::vector<float> written = std::exchange(values_, std::vector<float>(values_.size()));
  give_to_stream(&stream, [&] { std::ranges::copy(written, values_.begin()); });
  const std::unique_ptr<Batch> batch = measurer_->start(tasks({100000}), {}, &stream);
  EXPECT_EQ(sums_of(*batch)[0].totals.floating.squares, sum_of_squares(100000));

  give_to_stream(&stream, [&] { values_[7] = -1; });
  const std::unique_ptr<Batch> copied = copy({bytes(0, values_.size())}, &stream);
  measurer_->wait(*copied);
  EXPECT_EQ(std::memcmp(copied->copy(0).data(), values_.data(), copied->copy(0).size()), 0);
  EXPECT_EQ(values_[7], -1);
}

/// Not what it writes afterwards.
TEST_F(MeasurerTest, WaitsForNothing) {
  int stream = 0;
  const std::vector<float> before = values_;
  standin_driver().hangs = true;
  const auto batch = measurer_->start(tasks({100000, 3}), std::vector{bytes(5, 100)}, &stream);
  give_to_stream(&stream, [&] { std::ranges::fill(values_, 0.0F); });
  EXPECT_FALSE(batch->is_done());
  EXPECT_EQ(std::ranges::count(standin_driver().calls, "cuEventSynchronize"), 0);
  standin_driver().hangs = false;
  EXPECT_TRUE(batch->is_done());
  EXPECT_EQ(batch->sums()[0].totals.floating.squares, sum_of_squares(100000));
  EXPECT_EQ(batch->sums()[1].totals.floating.squares, 14);
  EXPECT_EQ(std::memcmp(batch->copy(0).data(), before.data() + 5, 400), 0);
}

/// Neither the streams nor the host's thread order them.
TEST_F(MeasurerTest, KeepsBatchesApart) {
  int first_stream = 0;
  int second_stream = 0;
  const auto first = measurer_->start(tasks({9}), std::vector{bytes(0, 9)}, &first_stream);
  const auto second = measurer_->start(tasks({100000}), std::vector{bytes(9, 20)}, &second_stream);
  EXPECT_EQ(sums_of(*second)[0].totals.floating.squares, sum_of_squares(100000));
  EXPECT_EQ(sums_of(*first)[0].totals.floating.squares, sum_of_squares(9));
  EXPECT_EQ(std::memcmp(first->copy(0).data(), values_.data(), 9 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(second->copy(0).data(), values_.data() + 9, 20 * sizeof(float)), 0);
}

TEST_F(MeasurerTest, HasFewBatchesAtATime) {
  std::vector<std::unique_ptr<Batch>> batches;
  while (batches.size() < BatchMemory::kMost) {
    batches.push_back(measurer_->start(tasks({9}), {}, nullptr));
  }
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    batches[3]->wait();
    batches[3].reset();
  });
  EXPECT_EQ(measure(tasks({7}))[0].totals.floating.squares, 140);
  later.join();
  constexpr int kOfABatch = 3;  // event and memory
  EXPECT_EQ(standin_driver().allocated, 1 + kOfABatch * static_cast<int>(BatchMemory::kMost));
  EXPECT_FALSE(batches[3]);
}

/// The GPU may still write there.
TEST_F(MeasurerTest, NeverUsesTheMemoryOfAnUnfinishedBatchAgain) {
  standin_driver().hangs = true;
  measurer_->start(tasks({9}), {}, nullptr).reset();
  const int lost = standin_driver().allocated;
  standin_driver().hangs = false;
  measure(tasks({7}));
  EXPECT_EQ(standin_driver().allocated, lost + 3);
  measurer_.reset();
  EXPECT_EQ(standin_driver().allocated, 4);  // its event and memory, and the kernel's module
  standin_driver().allocated = 0;
}

TEST_F(MeasurerTest, CopiesManyRangesAndNothing) {
  const auto batch = copy({bytes(1, 3), {}, bytes(50000, 50000)});
  measurer_->wait(*batch);
  EXPECT_EQ(std::memcmp(batch->copy(0).data(), values_.data() + 1, 12), 0);
  EXPECT_TRUE(batch->copy(1).empty());
  EXPECT_EQ(std::memcmp(batch->copy(2).data(), values_.data() + 50000, 200000), 0);
  EXPECT_TRUE(batch->sums().empty());
}

TEST_F(MeasurerTest, ReadsNothingOfACapturedGraph) {
  int stream = 0;
  standin_driver().capturing = &stream;
  for (void* const refused : {static_cast<void*>(&stream), static_cast<void*>(nullptr)}) {
    EXPECT_THROW(measurer_->start(tasks({9}), {}, refused), Capturing);
  }
  EXPECT_EQ(standin_driver().launches, 0);
  standin_driver().capturing = nullptr;
  EXPECT_EQ(measure(tasks({7}), &stream)[0].totals.floating.squares, 140);  // later it can
}

TEST_F(MeasurerTest, EndsNoCaptureOfAnotherThread) {
  int captured = 0;
  int stream = 0;
  standin_driver().capturing = &captured;
  const auto batch = measurer_->start(tasks({9}), std::vector{bytes(0, 3)}, &stream);
  EXPECT_TRUE(batch->is_done());
  measurer_->wait(*batch);
  EXPECT_EQ(standin_driver().captures_ended, 0);
  EXPECT_EQ(capture_mode_of_thread(), 0);  // as before
}

/// Each failure has one reason, which stays, and nothing is left allocated.
class EachFailure : public MeasurerTest, public testing::WithParamInterface<const char*> {};

TEST_P(EachFailure, IsTheReasonFromThenOn) {
  standin_driver().failing = GetParam();
  const std::string reason = std::string(GetParam()) + " of CUDA's driver: STANDIN_ERROR";
  if (std::string(GetParam()) == "cuModuleLoadData") {
    EXPECT_THROW(measure(tasks({100})), Unavailable);  // or the build has no kernel
  } else {
    EXPECT_THAT([&] { measure(tasks({100})); }, ThrowsMessage<Unavailable>(reason));
  }
  standin_driver().failing.clear();
  standin_driver().calls.clear();
  EXPECT_THROW(measure(tasks({100})), Unavailable);
  EXPECT_TRUE(standin_driver().calls.empty());
}

INSTANTIATE_TEST_SUITE_P(OfTheDriver, EachFailure,
                         testing::Values("cuCtxGetCurrent", "cuCtxGetDevice", "cuModuleLoadData",
                                         "cuModuleGetFunction", "cuEventCreate",
                                         "cuPointerGetAttribute", "cuMemAlloc", "cuMemHostAlloc",
                                         "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync",
                                         "cuEventRecord", "cuEventSynchronize",
                                         "cuStreamIsCapturing",
                                         "cuThreadExchangeStreamCaptureMode"));

TEST_F(MeasurerTest, NeedsACurrentContext) {
  standin_driver().context = 0;
  EXPECT_THAT([&] { measure(tasks({100})); },
              ThrowsMessage<Unavailable>("no context of CUDA is current"));
}

TEST_F(MeasurerTest, NeverReadsTheMemoryOfAnotherGpu) {
  standin_driver().on[1] = 1;
  EXPECT_THAT([&] { measure(tasks({100})); },
              ThrowsMessage<Unavailable>(HasSubstr("on another GPU")));
  EXPECT_EQ(standin_driver().launches, 0);
  measurer_ = std::make_unique<Measurer>();
  EXPECT_THROW(copy({bytes(0, 1)}), Unavailable);
}

TEST_F(MeasurerTest, HasAModuleInEachContext) {
  measure(tasks({100}));
  standin_driver().context = 2;
  measure(tasks({100}));
  standin_driver().context = 1;
  measure(tasks({100}));
  EXPECT_EQ(std::ranges::count(standin_driver().calls, "cuModuleLoadData"), 2);
}

}  // namespace
}  // namespace lockstep::gpu
