// A small model whose halves are on two devices of a node with one per rank.

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/nn/module.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

struct Halves : Module {
  Halves(const at::Generator& generator, at::Device first, at::Device second)
      : lower(register_module("lower", std::make_shared<Linear>(6, 5, generator))),
        upper(register_module("upper", std::make_shared<Linear>(5, 3, generator))),
        upper_device(second) {
    lower->to(first);
    upper->to(second);
  }

  at::Tensor forward(const at::Tensor& input) override {
    return (*upper)((*lower)(input).relu().to(upper_device));
  }

  std::shared_ptr<Linear> lower;
  std::shared_ptr<Linear> upper;
  at::Device upper_device;
};

at::Tensor input_of(Rank& rank, int shard) {
  const auto seed = static_cast<std::uint64_t>(100 * rank.step() + shard);
  return rank.input(at::randn({4, 6}, cpu_generator(rank.seed(seed)), at::TensorOptions()));
}

/// Flips the lowest bit of one element of a reduced gradient, unnoticed by DDP.
void flip_one_bit(Halves& model) {
  at::Tensor gradient = model.upper->named_parameters().front().tensor.grad();
  at::Tensor host = gradient.cpu();
  static_cast<std::uint32_t*>(host.data_ptr())[7] ^= 1U;
  gradient.copy_(host);
}

void train(Rank& rank) {
  const auto devices = open_devices(rank, {.count = rank.world_size(), .capacity = 1 << 20});
  const auto place = static_cast<std::size_t>(rank.rank());
  const at::Device first = devices[place];
  Halves model(cpu_generator(rank.seed(7)), first, devices[(place + 1) % devices.size()]);
  const auto loss_of = [&](const auto& forward, int shard) {
    return forward(input_of(rank, shard).to(first)).pow(2).mean();
  };
  const bool is_reference = rank.is_reference();
  std::unique_ptr<DistributedDataParallel> ddp;
  if (!is_reference) ddp = std::make_unique<DistributedDataParallel>(model, rank.group());
  Sgd optimizer(model.parameters(), /*learning_rate=*/0.1);

  rank.train([&](std::int64_t step) {
    if (is_reference) {
      rank.mean_of_rank_gradients(model,
                                  [&](int shard) { return loss_of(std::ref(model), shard); });
    } else {
      model.zero_grad();
      loss_of([&](const at::Tensor& input) { return ddp->forward(input); }, rank.rank()).backward();
    }
    rank.at_branch();
    const bool is_flipped = !rank.is("clean") && rank.is("flip");
    if (is_flipped && rank.rank() == 1 && step == 2) flip_one_bit(model);
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

}  // namespace

Scenario trains_on_devices() {
  const std::vector<Claim> claims{kGradientsAgree, kGradientsEqual, ranks_finish()};
  return {
      .summary = "A small model whose halves are on two devices of a node.",
      .variants = {{"flip", Role::buggy, "one bit of a gradient is wrong on rank 1 in step 2"},
                   {"clean", Role::fixed, "it is not"},
                   {"reference", Role::reference, "one process, on one device"}},
      .worlds = {2, 3},
      .devices = {DeviceKind::cpu, DeviceKind::sim, DeviceKind::cuda},
      .device_needs = [](const Cell& cell) { return DeviceNeeds{cell.world_size}; },
      .steps = 3,
      .axes = {},
      .claims = claims,
      .tables = {},
      .expect =
          [claims](const Cell& cell) {
            Expectation expectation;
            if (cell.role == Role::buggy) expectation.breaks = {claims.front()};
            return expectation;
          },
      .body = train,
  };
}

}  // namespace lockstep
