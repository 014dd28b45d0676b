#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/launch/launch.h"
#include "harness/sim/virtual_devices.h"
#include "harness/train/ddp.h"
#include "harness/train/module.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::SizeIs;

/// Two layers, each on a device of its own.
class TwoLayers : public Module {
 public:
  TwoLayers(at::Device lower, at::Device upper) : upper_device_(upper) {
    const at::Generator generator = cpu_generator(3);
    lower_ = register_module("lower", std::make_shared<Linear>(8, 16, generator));
    upper_ = register_module("upper", std::make_shared<Linear>(16, 4, generator));
    lower_->to(lower);
    upper_->to(upper);
  }

  at::Tensor forward(const at::Tensor& input) override {
    return (*upper_)(at::gelu((*lower_)(input)).to(upper_device_));
  }

 private:
  at::Device upper_device_;
  std::shared_ptr<Linear> lower_, upper_;
};

/// Gradients of two steps under DDP, on the CPU.
std::vector<at::Tensor> gradients(ProcessGroup& group, at::Device lower, at::Device upper,
                                  const DdpOptions& options) {
  TwoLayers model(lower, upper);
  DistributedDataParallel ddp(model, group, options);
  at::Generator generator = cpu_generator(static_cast<std::uint64_t>(10 + group.rank()));
  std::vector<at::Tensor> all;
  for (int step = 0; step < 2; ++step) {
    const at::Tensor input = at::randn({4, 8}, generator, at::TensorOptions()).to(lower);
    if (options.gradient_as_bucket_view) {
      for (at::Tensor& parameter : model.parameters()) {
        if (parameter.grad().defined()) parameter.mutable_grad().zero_();
      }
    } else {
      model.zero_grad();
    }
    ddp.forward(input).pow(2).mean().backward();
    for (const at::Tensor& parameter : model.parameters()) {
      EXPECT_EQ(parameter.grad().device(), parameter.device());
      all.push_back(parameter.grad().cpu().clone());
    }
  }
  return all;
}

bool equal(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  bool is_equal = left.size() == right.size();
  for (std::size_t i = 0; is_equal && i < left.size(); ++i) is_equal = at::equal(left[i], right[i]);
  return is_equal;
}

/// Gloo's threads let go of a collective's tensors a moment after its end.
bool all_is_freed() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (virtual_memory(0).live + virtual_memory(1).live != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Ranks with a process group for tensors of virtual devices. Their process has one thread before
/// it forks: a test that comes after torch's own threads cannot have ranks.
class VirtualRanks : public testing::Test {
 protected:
  std::vector<RankEnd> launch(int ranks, const std::function<int(const Seat&)>& body) {
    LaunchOptions options;
    options.ranks = ranks;
    options.folder = folder_.path() / std::to_string(++launches_);
    std::filesystem::create_directory(options.folder);
    return launch_ranks(options, body);
  }

  std::vector<RankEnd> launch(const std::function<int(ProcessGroup& group)>& body) {
    return launch(2, [&](const Seat& seat) {
      open_virtual_devices({.count = 2});
      const auto file =
          folder_.path() / std::to_string(launches_) / ("collectives-" + std::to_string(seat.rank));
      CollectiveLog log(file, seat.rank);
      ProcessGroup group(seat, {.device = "sim"}, log);
      return body(group);
    });
  }

  TemporaryFolder folder_;
  int launches_ = 0;
};

/// What ended otherwise than with status 0, with its last words; empty when all is well.
std::string complaints(const std::vector<RankEnd>& ends) {
  std::string all;
  for (const RankEnd& end : ends) {
    if (end.ending == Ending::finished && end.code == 0) continue;
    all += std::to_string(end.rank) + ": " + how(end) + "\n" + end.last_output + "\n";
  }
  return all;
}

TEST_F(VirtualRanks, ReduceGradientsToTheBitsOfTheCpu) {
  const std::vector<RankEnd> ends = launch([](ProcessGroup& group) {
    for (const DdpOptions& options : {DdpOptions{},
                                      {.gradient_as_bucket_view = true},
                                      {.static_graph = true},
                                      {.find_unused_parameters = true},
                                      {.bucket_bytes = 64}}) {
      const auto on_cpu = gradients(group, at::kCPU, at::kCPU, options);
      const auto on_one = gradients(group, virtual_device(1), virtual_device(1), options);
      const auto on_two = gradients(group, virtual_device(0), virtual_device(1), options);
      if (!equal(on_cpu, on_one)) return 1;
      if (!equal(on_cpu, on_two)) return 2;
    }
    return all_is_freed() ? 0 : 3;
  });
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_EQ(complaints(ends), "");
}

}  // namespace
}  // namespace lockstep
