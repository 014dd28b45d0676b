#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "harness/comm/future_of.h"
#include "harness/comm/process_group.h"
#include "harness/comm/store_service.h"
#include "harness/launch/launch.h"
#include "harness/sim/virtual_devices.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/nn/module.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using testing::SizeIs;

/// Two layers, each on its own device.
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

/// Gloo's threads release a collective's tensors a moment after its end.
bool all_is_freed() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (virtual_memory(0).live + virtual_memory(1).live != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Larger than any use, so that sharing never gets in the way.
constexpr std::int64_t kCapacity = std::int64_t{1} << 30;

/// Ranks with a process group for tensors of virtual devices. Their process must have one thread
/// before it forks, so a test after the start of torch's own threads cannot have ranks.
class VirtualRanks : public testing::Test {
 protected:
  std::vector<RankExit> launch(int ranks, const std::function<int(const RankPlacement&)>& body) {
    LaunchOptions options;
    options.ranks = ranks;
    options.folder = folder_.path() / std::to_string(++launches_);
    options.host = serve_store;
    std::filesystem::create_directory(options.folder);
    return launch_ranks(options, body);
  }

  std::vector<RankExit> launch(const std::function<int(ProcessGroup& group)>& body) {
    return launch(2, [&](const RankPlacement& placement) {
      const auto folder = folder_.path() / std::to_string(launches_);
      open_virtual_devices({.count = 2, .capacity = kCapacity, .ledger = folder / "devices.bin"});
      const auto file = folder / ("collectives-" + std::to_string(placement.rank));
      CollectiveLog log(file, placement.rank);
      ProcessGroup group(placement, {.device = DeviceKind::sim}, log);
      return body(group);
    });
  }

  TemporaryFolder folder_;
  int launches_ = 0;
};

/// Ranks that ended with a status other than 0, with their last output; empty if there are none.
std::string complaints(const std::vector<RankExit>& exits) {
  std::string all;
  for (const RankExit& end : exits) {
    if (end.kind == ExitKind::finished && end.code == 0) continue;
    all += std::to_string(end.rank) + ": " + exit_in_words(end) + "\n" + end.last_output + "\n";
  }
  return all;
}

TEST_F(VirtualRanks, ReduceGradientsToTheBitsOfTheCpu) {
  const std::vector<RankExit> exits = launch([](ProcessGroup& group) {
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
  ASSERT_THAT(exits, SizeIs(2));
  EXPECT_EQ(complaints(exits), "");
}

TEST_F(VirtualRanks, HaveTheParametersOfRankZeroUnlessTheyAreNotToBeSynchronised) {
  const std::vector<RankExit> exits = launch([](ProcessGroup& group) {
    const auto is_rank_zeros = [&](const DdpOptions& options) {
      Linear layer(4, 4, cpu_generator(static_cast<std::uint64_t>(7 + group.rank())));
      const Linear of_rank_zero(4, 4, cpu_generator(7));
      const DistributedDataParallel ddp(layer, group, options);
      return at::equal(layer.weight(), of_rank_zero.weight());
    };
    if (!is_rank_zeros({})) return 1;
    return is_rank_zeros({.init_sync = false}) == (group.rank() == 0) ? 0 : 2;
  });
  ASSERT_THAT(exits, SizeIs(2));
  EXPECT_EQ(complaints(exits), "");
}

/// A collective on tensors of `device`; returns its output tensors.
using Exchange = std::function<Tensors(c10d::ProcessGroup& group, at::Device device)>;

/// [2, 3], different on every rank.
at::Tensor own(c10d::ProcessGroup& group, at::Device device) {
  return at::randn({2, 3}, cpu_generator(static_cast<std::uint64_t>(20 + group.getRank())),
                   at::TensorOptions())
      .to(device);
}

/// Waits, and checks that the future holds tensors of `device`.
void finish(const c10::intrusive_ptr<c10d::Work>& work, at::Device device) {
  work->wait();
  const auto future = future_of(*work);
  if (!future) return;
  future->wait();
  c10::IValue value = future->value();
  while (value.isList() && !value.toListRef().empty()) {
    const c10::IValue first = value.toListRef().front();
    value = first;
  }
  if (value.isTensor()) {
    EXPECT_EQ(value.toTensor().device(), device);
  }
}

const std::vector<Exchange> kExchanges{
    [](auto& group, auto device) {
      Tensors all{own(group, device)};
      finish(group.allreduce(all), device);
      return all;
    },
    [](auto& group, auto device) {
      Tensors all{own(group, device), own(group, device) * 2};
      finish(group.allreduce_coalesced(all), device);
      return all;
    },
    [](auto& group, auto device) {
      Tensors all{own(group, device)};
      c10d::BroadcastOptions options;
      options.rootRank = 1;
      finish(group.broadcast(all, options), device);
      return all;
    },
    [](auto& group, auto device) {
      Tensors all{own(group, device)};
      finish(group.reduce(all), device);
      if (group.getRank() != 0) all.clear();
      return all;
    },
    [](auto& group, auto device) {
      Tensors inputs{own(group, device)};
      std::vector<Tensors> outputs{{own(group, device), own(group, device)}};
      finish(group.allgather(outputs, inputs), device);
      return outputs[0];
    },
    [](auto& group, auto device) {
      at::Tensor input = own(group, device), output = at::cat({input, input});
      finish(group._allgather_base(output, input), device);
      return Tensors{output};
    },
    [](auto& group, auto device) {
      Tensors inputs{own(group, device)};
      std::vector<Tensors> outputs;
      if (group.getRank() == 0) outputs = {{own(group, device), own(group, device)}};
      finish(group.gather(outputs, inputs), device);
      return outputs.empty() ? Tensors() : outputs[0];
    },
    [](auto& group, auto device) {
      std::vector<Tensors> inputs;
      if (group.getRank() == 0) inputs = {{own(group, device), own(group, device) * 2}};
      Tensors outputs{own(group, device)};
      finish(group.scatter(outputs, inputs), device);
      return outputs;
    },
    [](auto& group, auto device) {
      std::vector<Tensors> inputs{{own(group, device), own(group, device) * 2}};
      Tensors outputs{own(group, device)};
      finish(group.reduce_scatter(outputs, inputs), device);
      return outputs;
    },
    [](auto& group, auto device) {
      at::Tensor output = own(group, device), input = at::cat({output, output * 3});
      finish(group._reduce_scatter_base(output, input), device);
      return Tensors{output};
    },
    [](auto& group, auto device) {
      at::Tensor input = own(group, device), output = at::zeros_like(input);
      std::vector<std::int64_t> even;
      finish(group.alltoall_base(output, input, even, even), device);
      return Tensors{output};
    },
    [](auto& group, auto device) {
      Tensors all{own(group, device)};
      if (group.getRank() == 0) {
        group.send(all, 1, 0)->wait();
      } else {
        group.recv(all, 0, 0)->wait();
      }
      return all;
    },
};

TEST_F(VirtualRanks, DoEveryCollectiveAsTheCpuDoes) {
  const std::vector<RankExit> exits = launch([](ProcessGroup& group) {
    int status = 1;
    for (const Exchange& exchange : kExchanges) {
      const Tensors here = exchange(group.c10d_group(), at::kCPU);
      Tensors there = exchange(group.c10d_group(), virtual_device(1));
      for (at::Tensor& tensor : there) {
        if (tensor.device() != virtual_device(1)) return status;
        tensor = tensor.cpu();
      }
      if (!equal(here, there)) return status;
      ++status;
    }
    return testing::Test::HasFailure() || !all_is_freed() ? 99 : 0;
  });
  EXPECT_EQ(complaints(exits), "");
  for (const int rank : {0, 1}) {
    const auto file = folder_.path() / "1" / ("collectives-" + std::to_string(rank));
    const std::vector<Collective> log = read_collective_log(file);
    ASSERT_EQ(log.size(), 1 + 2 * kExchanges.size())
        << "joining, and those of both kinds of devices";
    for (std::size_t i = 1; i < log.size(); i += 2) {
      EXPECT_EQ(log[i].operation, log[i + 1].operation);
      EXPECT_EQ(log[i].bytes, log[i + 1].bytes);
      EXPECT_EQ(log[i + 1].state, CollectiveState::completed) << log[i].operation;
    }
  }
}

TEST_F(VirtualRanks, EndAfterABackwardOnTwoDevicesWithoutHangOrAbort) {
  for (int run = 0; run < 3; ++run) {
    const std::vector<RankExit> exits = launch([](ProcessGroup& group) {
      gradients(group, virtual_device(0), virtual_device(1), {});
      return 0;
    });
    ASSERT_EQ(complaints(exits), "");
  }
}

TEST_F(VirtualRanks, HaveAGroupForCudaToo) {
  const std::vector<RankExit> exits = launch(1, [&](const RankPlacement& placement) {
    CollectiveLog log(folder_.path() / "log", placement.rank);
    ProcessGroup group(placement, {.device = DeviceKind::cuda}, log);
    group.c10d_group().getBackend(c10::DeviceType::CUDA);
    return 0;
  });
  EXPECT_EQ(complaints(exits), "");
}

}  // namespace
}  // namespace lockstep
