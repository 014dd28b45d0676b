// A watch records the same of values on a GPU as of values on the CPU. The driver is a stand-in.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "harness/record/rank_status.h"
#include "harness/record/watch_control.h"
#include "harness/watch/lockstep_watch.h"
#include "tests/command.h"
#include "tests/gpu/standin_driver.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using Sizes = std::vector<std::int64_t>;

struct Tensor {
  const char* kind;
  const char* dtype;
  Sizes local;
  Sizes global;
  Sizes offset;
  const char* reason;
  std::vector<double> doubles;
  std::vector<float> floats;
  std::vector<std::int64_t> wholes;

  const void* data() const {
    if (!doubles.empty()) return doubles.data();
    if (!floats.empty()) return floats.data();
    return wholes.data();
  }
};

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 17) - 8;
  return values;
}

constexpr std::size_t kSamples = 7;  // their places among the tensors
constexpr std::size_t kLeftOut = 9;

/// Of all kinds that are measured in another way. Their sums are exact, so no order of additions
/// shows.
std::vector<Tensor> tensors() {
  constexpr double kHuge = 0x1p1000;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  std::vector<Tensor> all;
  all.push_back({"gradient", "float32", {500, 100}, {}, {}, "", {}, counted(50000), {}});
  all.push_back({"gradient", "float32", {3}, {}, {}, "", {}, {1, kNaN, 2}, {}});
  all.push_back({"gradient", "float32", {2, 3}, {2, 9}, {0, 4}, "", {}, counted(6), {}});
  // Its runs lie at unequal distances.
  all.push_back({"gradient", "float32", {2, 2, 2}, {2, 9, 9}, {0, 4, 3}, "", {}, counted(8), {}});
  all.push_back({"gradient", "float64", {2}, {}, {}, "", {kHuge, -kHuge}, {}, {}});
  all.push_back({"gradient", "int64", {2}, {}, {}, "", {}, {}, {kLarge, 1}});
  all.push_back({"gradient", "int64", {3}, {}, {}, "", {}, {}, {5, -7, 1}});
  all.push_back({"data", "float32", {2, 5}, {}, {}, "", {}, counted(10), {}});
  all.push_back({"module_output", "float32", {4}, {}, {}, "", {}, counted(4), {}});
  all.push_back({"gradient", "float32", {4}, {}, {}, "left out", {}, counted(4), {}});
  all.push_back({"gradient", "float32", {0}, {}, {}, "", {}, {}, {}});
  return all;
}

/// Where they lie.
void write(const std::vector<Tensor>& values, std::vector<Tensor>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::ranges::copy(values[i].doubles, to[i].doubles.begin());
    std::ranges::copy(values[i].floats, to[i].floats.begin());
    std::ranges::copy(values[i].wholes, to[i].wholes.begin());
  }
}

void set_to_zero(std::vector<Tensor>& tensors) {
  for (Tensor& tensor : tensors) {
    std::ranges::fill(tensor.doubles, 0.0);
    std::ranges::fill(tensor.floats, 0.0F);
    std::ranges::fill(tensor.wholes, 0);
  }
}

/// The contents of the files of a rank that hold values.
std::string values_in(const fs::path& folder) {
  std::string all;
  for (const char* const file :
       {"rank-0.csv", "rank-0.index", "rank-0.tensors.csv", "rank-0.sketches"}) {
    all += text_of(folder / file);
  }
  std::vector<fs::path> snapshots;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") snapshots.push_back(entry.path());
  }
  std::ranges::sort(snapshots);
  for (const fs::path& snapshot : snapshots)
    all += snapshot.filename().string() + text_of(snapshot);
  return all;
}

class ValuesOnGpu : public testing::Test {
 protected:
  ValuesOnGpu() { gpu::reset_standin_driver(); }
  ~ValuesOnGpu() override {
    EXPECT_EQ(gpu::standin_driver().allocated, 0);
    gpu::reset_standin_driver();
  }

  fs::path new_folder(const std::string& name, bool keeps) const {
    const fs::path folder = folder_.path() / name;
    fs::create_directories(folder);
    WatchControl::create(folder);
    if (keeps) WatchControl(folder).ask_to_keep();
    return folder;
  }

  static lockstep_watch* open(const fs::path& folder, bool keeps_before = false,
                              std::uint64_t keep_bytes = 1 << 20) {
    const std::string path = folder.string();
    const lockstep_watch_options options{path.c_str(), "job",       0, keeps_before ? 1 : 0,
                                         keep_bytes,   1 /*ranks*/, 0};
    lockstep_watch* const watch = lockstep_watch_open(&options);
    EXPECT_TRUE(watch) << lockstep_watch_error();
    return watch;
  }

  static std::vector<lockstep_watch_value> described(lockstep_watch* watch,
                                                     const std::vector<Tensor>& tensors,
                                                     const std::string& prefix = "t") {
    std::vector<lockstep_watch_value> values;
    for (const Tensor& tensor : tensors) {
      const std::string name = prefix + std::to_string(values.size());
      const bool is_part = !tensor.global.empty();
      const lockstep_watch_tensor words{"pre_step",
                                        tensor.kind,
                                        name.c_str(),
                                        tensor.dtype,
                                        static_cast<std::int32_t>(tensor.local.size()),
                                        0,
                                        tensor.local.data(),
                                        is_part ? tensor.global.data() : nullptr,
                                        is_part ? tensor.offset.data() : nullptr,
                                        "",
                                        tensor.reason};
      const std::int64_t number = lockstep_watch_describe(watch, &words);
      EXPECT_GE(number, 0) << lockstep_watch_error();
      values.push_back({number, 0, tensor.data(), nullptr});
    }
    return values;
  }

  /// Two steps, of which the second is observed early, and one of samples alone. On the GPU the
  /// job's stream has yet to write the values, and then overwrites them.
  static void record(lockstep_watch* watch, bool is_on_gpu) {
    std::vector<Tensor> all = tensors();
    const std::vector<lockstep_watch_value> values = described(watch, all);
    int stream = 0;
    if (is_on_gpu) set_to_zero(all);
    const auto observed = [&](std::span<const lockstep_watch_value> some, bool is_next) {
      const auto count = static_cast<std::int64_t>(some.size());
      if (is_on_gpu) {
        gpu::give_to_stream(&stream, [&all] { write(tensors(), all); });
      }
      if (is_on_gpu) {
        const int result =
            is_next ? lockstep_watch_observe_next_on_gpu(watch, some.data(), count, &stream)
                    : lockstep_watch_observe_on_gpu(watch, some.data(), count, &stream);
        gpu::give_to_stream(&stream, [&all] { set_to_zero(all); });
        return result;
      }
      return is_next ? lockstep_watch_observe_next(watch, some.data(), count)
                     : lockstep_watch_observe(watch, some.data(), count);
    };
    ASSERT_EQ(lockstep_watch_begin_step(watch, 1), 0);
    ASSERT_EQ(observed(values, false), 0) << lockstep_watch_error();
    ASSERT_EQ(observed(values, true), 0) << lockstep_watch_error();
    ASSERT_EQ(lockstep_watch_end_step(watch), 0);
    ASSERT_EQ(lockstep_watch_begin_step(watch, 2), 0);
    ASSERT_EQ(lockstep_watch_end_step(watch), 0);
    ASSERT_EQ(lockstep_watch_begin_step(watch, 3), 0);
    ASSERT_EQ(observed(std::span(values).subspan(kSamples, 1), false), 0) << lockstep_watch_error();
    ASSERT_EQ(lockstep_watch_end(watch, nullptr), 0);
    ASSERT_EQ(lockstep_watch_close(watch), 0);
  }

  TemporaryFolder folder_;
};

TEST_F(ValuesOnGpu, AreRecordedAsOnTheCpu) {
  for (const bool keeps : {false, true}) {
    const fs::path cpu = new_folder(keeps ? "cpu-keeps" : "cpu", keeps);
    const fs::path gpu = new_folder(keeps ? "gpu-keeps" : "gpu", keeps);
    record(open(cpu), false);
    EXPECT_EQ(gpu::standin_driver().launches, 0);
    record(open(gpu), true);
    EXPECT_EQ(gpu::standin_driver().launches, 2);
    gpu::standin_driver().launches = 0;
    const std::string expected = values_in(cpu);
    EXPECT_EQ(expected.find("safetensors") != std::string::npos, keeps);
    EXPECT_EQ(values_in(gpu), expected);
  }
}

/// The job goes on while the GPU works, and what comes later is recorded later.
TEST_F(ValuesOnGpu, AreNotWaitedFor) {
  const std::vector<Tensor> on_cpu = tensors();
  const auto record_both = [&](const fs::path& folder, bool is_on_gpu) {
    std::vector<Tensor> on_gpu = tensors();
    lockstep_watch* const watch = open(folder);
    const auto cpu = described(watch, on_cpu, "cpu ");
    const auto gpu = described(watch, on_gpu, "gpu ");
    const auto count = static_cast<std::int64_t>(cpu.size());
    lockstep_watch_value next = cpu[kSamples];
    next.micro_batch = 1;
    int stream = 0;
    gpu::standin_driver().hangs = is_on_gpu;
    for (std::int64_t step = 1; step <= 2; ++step) {
      EXPECT_EQ(lockstep_watch_begin_step(watch, step), 0);
      EXPECT_EQ(is_on_gpu ? lockstep_watch_observe_on_gpu(watch, gpu.data(), count, &stream)
                          : lockstep_watch_observe(watch, gpu.data(), count),
                0)
          << lockstep_watch_error();
      EXPECT_EQ(lockstep_watch_observe(watch, cpu.data(), count), 0) << lockstep_watch_error();
      EXPECT_EQ(lockstep_watch_observe_next(watch, &next, 1), 0);
      EXPECT_EQ(lockstep_watch_end_step(watch), 0);
    }
    if (is_on_gpu) {
      gpu::give_to_stream(&stream, [&] { set_to_zero(on_gpu); });
      EXPECT_EQ(text_of(folder / "rank-0.csv").find("pre_step"), std::string::npos);
      EXPECT_EQ(std::ranges::count(gpu::standin_driver().calls, "cuEventSynchronize"), 0);
      gpu::standin_driver().hangs = false;
    }
    EXPECT_EQ(lockstep_watch_end(watch, nullptr), 0) << lockstep_watch_error();
    EXPECT_EQ(lockstep_watch_close(watch), 0);
  };
  const fs::path cpu = new_folder("cpu", false);
  const fs::path gpu = new_folder("gpu", false);
  record_both(cpu, false);
  record_both(gpu, true);
  EXPECT_EQ(values_in(gpu), values_in(cpu));
}

/// A rank that hangs or is killed makes no further call.
TEST_F(ValuesOnGpu, AreWrittenOnceTheGpuHasMeasuredThem) {
  const fs::path folder = new_folder("gpu", false);
  lockstep_watch* const watch = open(folder);
  const std::vector<Tensor> all = tensors();
  const auto values = described(watch, all);
  gpu::standin_driver().hangs = true;
  EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0);
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 3, nullptr), 0);
  EXPECT_EQ(lockstep_watch_end_step(watch), 0);
  const auto written = fs::file_size(folder / "rank-0.index");
  gpu::standin_driver().hangs = false;
  while (fs::file_size(folder / "rank-0.index") == written) std::this_thread::yield();
  lockstep_watch_close(watch);
}

/// It is too late to copy them.
TEST_F(ValuesOnGpu, ThatAreLostAreAFailure) {
  const fs::path folder = new_folder("gpu", false);
  lockstep_watch* const watch = open(folder);
  const std::vector<Tensor> all = tensors();
  const auto values = described(watch, all);
  EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0);
  gpu::standin_driver().failing = "cuEventQuery";
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 3, nullptr), 0);
  EXPECT_EQ(lockstep_watch_end(watch, "ValueError: no"), -1);
  EXPECT_THAT(lockstep_watch_error(),
              AllOf(StartsWith("A GPU did not measure the values that it was given (cuEventQuery"),
                    EndsWith("look for an error of the job's own work on that GPU.")));
  EXPECT_THAT(text_of(rank_status_file(folder, 0)), HasSubstr("ValueError: no"));
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 3, nullptr), -1);
  EXPECT_EQ(lockstep_watch_observe(watch, values.data(), 3), -1);
  EXPECT_EQ(lockstep_watch_close(watch), -1);
  EXPECT_EQ(text_of(folder / "rank-0.csv").find("pre_step"), std::string::npos);
}

TEST_F(ValuesOnGpu, ThatAreRefusedAreToldByALaterCall) {
  lockstep_watch* const watch = open(new_folder("gpu", false));
  const std::vector<Tensor> all = tensors();
  const auto values = described(watch, all);
  EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0);
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 1, nullptr), 0);
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 1, nullptr), 0);
  EXPECT_EQ(lockstep_watch_end(watch, nullptr), -1);
  EXPECT_THAT(lockstep_watch_error(), HasSubstr("observed twice in step 1"));
  lockstep_watch_close(watch);
}

/// A part at a time, and waited for.
TEST_F(ValuesOnGpu, AreCopiedHoweverLargeTheyAre) {
  constexpr std::int64_t kCount = (std::int64_t{5} << 20) + 3;  // 40 MiB
  std::vector<double> doubles(kCount);
  std::iota(doubles.begin(), doubles.end(), 0x1p600);
  std::ranges::for_each(doubles, [i = 1](double& value) mutable { value *= i++ % 5; });
  std::vector<Tensor> large;
  large.push_back({"gradient", "float64", {kCount}, {}, {}, "", doubles, {}, {}});
  large.push_back({"data", "float64", {3, kCount / 3}, {}, {}, "", doubles, {}, {}});
  for (const bool is_on_gpu : {false, true}) {
    lockstep_watch* const watch = open(new_folder(is_on_gpu ? "gpu" : "cpu", false));
    const auto values = described(watch, large);
    EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0);
    EXPECT_EQ(is_on_gpu ? lockstep_watch_observe_on_gpu(watch, values.data(), 2, nullptr)
                        : lockstep_watch_observe(watch, values.data(), 2),
              0)
        << lockstep_watch_error();
    EXPECT_EQ(lockstep_watch_end(watch, nullptr), 0);
    EXPECT_EQ(lockstep_watch_close(watch), 0);
  }
  EXPECT_EQ(std::ranges::count(gpu::standin_driver().calls, "cuMemcpyDtoHAsync"), 1 + 3 + 3);
  EXPECT_EQ(values_in(folder_.path() / "gpu"), values_in(folder_.path() / "cpu"));
}

/// Values that are stored do not overtake those before them.
TEST_F(ValuesOnGpu, AreStoredInTheirOrder) {
  const std::vector<Tensor> all = tensors();
  for (const bool keeps_before : {false, true}) {
    std::vector<std::string> recorded;
    for (const bool is_on_gpu : {false, true}) {
      const fs::path folder =
          new_folder((is_on_gpu ? "gpu " : "cpu ") + std::to_string(keeps_before), false);
      lockstep_watch* const watch = open(folder, keeps_before, 24);  // one of the first two below
      const auto values = described(watch, all);
      const auto observe =
          is_on_gpu ? [](lockstep_watch* on,
                         const lockstep_watch_value*
                             value) { return lockstep_watch_observe_on_gpu(on, value, 1, nullptr); }
                    : [](lockstep_watch* on, const lockstep_watch_value* value) {
                        return lockstep_watch_observe(on, value, 1);
                      };
      EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0);
      gpu::standin_driver().hangs = is_on_gpu && !keeps_before;
      EXPECT_EQ(observe(watch, &values[2]), 0);
      WatchControl(folder).ask_to_keep();
      std::thread later([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        gpu::standin_driver().hangs = false;
      });
      EXPECT_EQ(observe(watch, &values[6]), 0);
      EXPECT_EQ(observe(watch, &values[1]), 0);
      later.join();
      EXPECT_EQ(lockstep_watch_end(watch, nullptr), 0);
      EXPECT_EQ(lockstep_watch_close(watch), 0);
      recorded.push_back(values_in(folder));
      EXPECT_EQ(recorded.back().find("safetensors") != std::string::npos, true);
    }
    EXPECT_EQ(recorded[0], recorded[1]) << keeps_before;
  }
}

TEST_F(ValuesOnGpu, AreNotReadWhileTheirStreamCapturesAGraph) {
  int stream = 0;
  lockstep_watch* const watch = open(new_folder("gpu", false));
  const std::vector<Tensor> all = tensors();
  const auto values = described(watch, all);
  EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0);
  gpu::standin_driver().capturing = &stream;
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 1, &stream), -1);
  EXPECT_THAT(lockstep_watch_error(), HasSubstr("captures a CUDA graph"));
  EXPECT_EQ(gpu::standin_driver().captures_ended, 0);
  gpu::standin_driver().capturing = nullptr;
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 1, &stream), 0);
  EXPECT_EQ(lockstep_watch_close(watch), 0);
}

TEST_F(ValuesOnGpu, AreNotRecordedIfTheGpuCannotMeasure) {
  gpu::standin_driver().failing = "cuLaunchKernel";
  lockstep_watch* const watch = open(new_folder("gpu", false));
  const std::vector<Tensor> all = tensors();
  const auto values = described(watch, all);
  ASSERT_EQ(lockstep_watch_begin_step(watch, 1), 0);
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 3, nullptr), 1);
    EXPECT_STREQ(lockstep_watch_error(), "cuLaunchKernel of CUDA's driver: STANDIN_ERROR");
    gpu::standin_driver().failing.clear();
  }
  EXPECT_EQ(lockstep_watch_observe(watch, values.data(), 3), 0) << lockstep_watch_error();
  EXPECT_EQ(lockstep_watch_end(watch, nullptr), 0);
  EXPECT_EQ(lockstep_watch_close(watch), 0);
}

TEST_F(ValuesOnGpu, HaveNoStridesAndAnAddress) {
  lockstep_watch* const watch = open(new_folder("gpu", false));
  const std::vector<Tensor> all = tensors();
  auto values = described(watch, all);
  ASSERT_EQ(lockstep_watch_begin_step(watch, 1), 0);
  const std::int64_t strides[] = {1, 500};
  values[0].strides = strides;
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 1, nullptr), -1);
  values[0].strides = nullptr;
  values[0].data = nullptr;
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, values.data(), 1, nullptr), -1);
  EXPECT_EQ(gpu::standin_driver().launches, 0);
  // Of a tensor that is left out no value is asked for.
  lockstep_watch_value left_out = values[kLeftOut];
  left_out.data = nullptr;
  left_out.strides = strides;
  EXPECT_EQ(lockstep_watch_observe_on_gpu(watch, &left_out, 1, nullptr), 0);
  lockstep_watch_close(watch);
}

}  // namespace
}  // namespace lockstep
