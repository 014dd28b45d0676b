// `lockstep::Watch` records tensors of a GPU as those of the CPU. CUDA's driver is a stand-in, and
// so is what torch knows of its GPUs: their memory is that of this process.

#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/watch_control.h"
#include "harness/watch/torch/watch.h"
#include "tests/command.h"
#include "tests/gpu/standin_driver.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Two GPUs, each with one current stream.
class Gpus : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return at::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {at::kCUDA, current_}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_ = device.index();
    gpu::standin_driver().context = static_cast<std::uint64_t>(1 + current_);
    gpu::standin_driver().tensors_on = current_;
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, stream_ ? 7 : 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    EXPECT_EQ(stream.id(), 7);
    return stream_;
  }

  void use(void* stream) { stream_ = stream; }  ///< null: the default one

 private:
  inline static c10::DeviceIndex current_ = 0;
  void* stream_ = nullptr;
};

Gpus& gpus() {
  static Gpus all;
  static const c10::impl::DeviceGuardImplRegistrar registered(at::kCUDA, &all);
  return all;
}

int copies_to_host = 0;

at::Tensor copied(const at::Tensor& tensor, std::optional<at::ScalarType> /*dtype*/,
                  std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                  std::optional<bool> /*pinned*/, bool /*is_async*/,
                  std::optional<at::MemoryFormat> /*format*/) {
  EXPECT_EQ(device, at::kCPU);
  ++copies_to_host;
  return at::from_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       tensor.scalar_type())
      .clone();
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) { library.impl("_to_copy", &copied); }

/// Values of a tensor, and a tensor that has them on a device.
at::Tensor on(c10::Device device, std::vector<float>& values, at::IntArrayRef sizes,
              at::IntArrayRef strides) {
  const std::size_t bytes = values.size() * sizeof(float);
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(values.data(), device));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage),
      c10::DispatchKeySet(device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU),
      at::scalarTypeToTypeMeta(at::kFloat));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

class LibtorchWatchOnGpu : public testing::Test {
 protected:
  LibtorchWatchOnGpu() {
    gpu::reset_standin_driver();
    gpu::standin_driver().on = {{1, 0}, {2, 1}};
    gpus().setDevice({at::kCUDA, 0});
    gpus().use(nullptr);
    copies_to_host = 0;
  }
  ~LibtorchWatchOnGpu() override {
    EXPECT_EQ(gpu::standin_driver().allocated, 0);
    unsetenv("LOCKSTEP_WATCH_FOLDER");
    unsetenv("LOCKSTEP_WATCH_JOB");
    gpu::reset_standin_driver();
  }

  /// Two steps of parameters on `devices`, whose values a stream writes later and then changes.
  /// Returns what was recorded.
  std::string recorded(const std::string& name, const std::vector<c10::Device>& devices,
                       bool is_dense = true) {
    const fs::path folder = folder_.path() / name;
    fs::create_directories(folder);
    WatchControl::create(folder);
    setenv("LOCKSTEP_WATCH_FOLDER", folder.c_str(), 1);
    setenv("LOCKSTEP_WATCH_JOB", "job", 1);
    int stream = 0;
    gpus().use(&stream);
    Watch watch(WatchOptions{});
    std::vector<std::vector<float>> values(2 * devices.size());
    WatchedParameters parameters;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::vector<std::int64_t> strides =
          is_dense ? std::vector<std::int64_t>{3, 1} : std::vector<std::int64_t>{1, 2};
      for (std::size_t k : {2 * i, 2 * i + 1}) values[k].resize(6);
      parameters.push_back(
          {"w" + std::to_string(i), on(devices[i], values[2 * i], {2, 3}, strides)});
      parameters.back().tensor.set_requires_grad(true);
      parameters.back().tensor.mutable_grad() = on(devices[i], values[2 * i + 1], {2, 3}, strides);
    }
    const auto set_to = [&](float first) {
      for (std::vector<float>& some : values) {
        for (float& value : some) value = first++;
      }
    };
    const auto after_earlier_work = [&](float first) {
      if (devices[0].is_cuda() && copies_to_host == 0 && is_dense) {
        gpu::give_to_stream(&stream, [&set_to, first] { set_to(first); });
      } else {
        set_to(first);
      }
    };
    for (int step = 1; step <= 2; ++step) {
      after_earlier_work(static_cast<float>(10 * step));
      watch.after_backward(parameters);
      watch.before_step(parameters);
      after_earlier_work(static_cast<float>(-10 * step));
      watch.after_step(parameters);
    }
    watch.close();
    std::string all;
    for (const char* const file : {"rank-0.csv", "rank-0.index", "rank-0.tensors.csv"}) {
      all += text_of(folder / file);
    }
    return all;
  }

  TemporaryFolder folder_;
};

const c10::Device kCpu(at::kCPU);
const c10::Device kFirst(at::kCUDA, 0);
const c10::Device kSecond(at::kCUDA, 1);

TEST_F(LibtorchWatchOnGpu, RecordsTheValuesOfTheCurrentStream) {
  const std::string expected = recorded("cpu", {kCpu, kCpu});
  EXPECT_EQ(gpu::standin_driver().launches, 0);
  EXPECT_EQ(recorded("gpu", {kFirst, kFirst}), expected);
  EXPECT_EQ(gpu::standin_driver().launches, 6);
  EXPECT_EQ(copies_to_host, 0);
}

TEST_F(LibtorchWatchOnGpu, MeasuresOnEachGpu) {
  const std::string expected = recorded("cpu", {kCpu, kCpu});
  gpu::standin_driver().calls.clear();
  EXPECT_EQ(recorded("gpus", {kFirst, kSecond}), expected);
  EXPECT_EQ(gpu::standin_driver().launches, 12);
  EXPECT_EQ(std::ranges::count(gpu::standin_driver().calls, "cuModuleLoadData"), 2);
  EXPECT_EQ(gpus().getDevice(), kFirst);  // as before
}

TEST_F(LibtorchWatchOnGpu, CopiesWhatHasGaps) {
  const std::string expected = recorded("cpu", {kCpu}, false);
  EXPECT_EQ(recorded("gpu", {kFirst}, false), expected);
  EXPECT_EQ(gpu::standin_driver().launches, 0);
  EXPECT_EQ(copies_to_host, 6);
}

TEST_F(LibtorchWatchOnGpu, CopiesWhatTheGpuDoesNotMeasure) {
  const std::string expected = recorded("cpu", {kCpu, kCpu});
  gpu::standin_driver().failing = "cuModuleGetFunction";
  copies_to_host = 1;  // so that nothing waits for the stream
  EXPECT_EQ(recorded("gpu", {kFirst, kFirst}), expected);
  EXPECT_EQ(copies_to_host, 1 + 12);
  EXPECT_EQ(std::ranges::count(gpu::standin_driver().calls, "cuModuleGetFunction"), 1);
}

TEST_F(LibtorchWatchOnGpu, KnowsTheDefaultStream) {
  void* handle = this;
  EXPECT_TRUE(watch_details::find_current_stream(kFirst, handle));
  EXPECT_EQ(handle, nullptr);
}

}  // namespace
}  // namespace lockstep
