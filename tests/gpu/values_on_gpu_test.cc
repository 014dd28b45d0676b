// A watch records the same of values on a GPU as of values on the CPU. The driver is a stand-in.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "harness/record/watch_control.h"
#include "harness/watch/lockstep_watch.h"
#include "tests/gpu/standin_driver.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

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

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The contents of the files of a rank that hold values.
std::string values_in(const fs::path& folder) {
  std::string all;
  for (const char* const file : {"rank-0.csv", "rank-0.tensors.csv", "rank-0.sketches"}) {
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
  ValuesOnGpu() { gpu::standin_driver() = {}; }
  ~ValuesOnGpu() override {
    EXPECT_EQ(gpu::standin_driver().allocated, 0);
    gpu::standin_driver() = {};
  }

  fs::path new_folder(const char* name, bool keeps) const {
    const fs::path folder = folder_.path() / name;
    fs::create_directories(folder);
    WatchControl::create(folder);
    if (keeps) WatchControl(folder).ask_to_keep();
    return folder;
  }

  static lockstep_watch* open(const fs::path& folder, bool keeps_before = false) {
    const std::string path = folder.string();
    const lockstep_watch_options options{path.c_str(), "job",      0, keeps_before ? 1 : 0,
                                         1 << 20,      1 /*rank*/, 0};
    lockstep_watch* const watch = lockstep_watch_open(&options);
    EXPECT_TRUE(watch) << lockstep_watch_error();
    return watch;
  }

  static std::vector<lockstep_watch_value> described(lockstep_watch* watch,
                                                     const std::vector<Tensor>& tensors) {
    std::vector<lockstep_watch_value> values;
    for (const Tensor& tensor : tensors) {
      const std::string name = "t" + std::to_string(values.size());
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
  /// job's stream has yet to write the values.
  static void record(lockstep_watch* watch, bool is_on_gpu) {
    std::vector<Tensor> all = tensors();
    const std::vector<lockstep_watch_value> values = described(watch, all);
    int stream = 0;
    const auto observed = [&](std::span<const lockstep_watch_value> some, bool is_next) {
      const auto count = static_cast<std::int64_t>(some.size());
      if (is_on_gpu) {
        set_to_zero(all);
        gpu::give_to_stream(&stream, [&all] { write(tensors(), all); });
      }
      if (is_on_gpu && is_next) {
        return lockstep_watch_observe_next_on_gpu(watch, some.data(), count, &stream);
      }
      if (is_on_gpu) return lockstep_watch_observe_on_gpu(watch, some.data(), count, &stream);
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
