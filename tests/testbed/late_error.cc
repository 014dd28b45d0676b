// No rank uses one layer in step 1, so its bucket never fills. The reducer leaves that step
// unsynchronised and reports it only when the next forward begins. The damage is one step older
// than the error.

#include <ATen/ops/randn.h>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

struct TwoLayers : Module {
  explicit TwoLayers(const at::Generator& generator)
      : first(register_module("first", std::make_shared<Linear>(4, 4, generator))),
        second(register_module("second", std::make_shared<Linear>(4, 4, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor hidden = first->forward(input);
    return uses_second ? second->forward(hidden) : hidden;
  }

  std::shared_ptr<Linear> first;
  std::shared_ptr<Linear> second;
  bool uses_second = true;
};

at::Tensor input_of(Rank& rank, int owner, std::int64_t step) {
  const auto seed = rank.seed(static_cast<std::uint64_t>(100 * step + owner));
  return rank.input(at::randn({4, 4}, cpu_generator(seed), at::TensorOptions()));
}

void train(Rank& rank) {
  TwoLayers model(cpu_generator(rank.seed(0)));
  Sgd optimizer(model.parameters(), 0.1);
  std::optional<DistributedDataParallel> ddp;
  const bool is_reference = rank.is_reference();
  rank.at_branch();
  DdpOptions options;
  if (rank.is("find-unused")) {
    options.find_unused_parameters = true;
  } else if (rank.is("unused-once")) {
    options.find_unused_parameters = false;
  }
  if (!is_reference) ddp.emplace(model, rank.group(), options);
  rank.train([&](std::int64_t step) {
    model.zero_grad();
    const auto loss_of = [&](int owner) {
      model.uses_second = step > 1;
      const at::Tensor input = input_of(rank, owner, step);
      return (is_reference ? model.forward(input) : ddp->forward(input)).pow(2).mean();
    };
    if (is_reference) {
      rank.mean_of_rank_gradients(model, loss_of);
    } else {
      loss_of(rank.rank()).backward();
    }
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
  });
}

}  // namespace

Scenario late_error() {
  return {
      .summary = "The reducer complains one step after the damage.",
      .variants = {{"unused-once", Role::buggy, "no rank uses the second layer in step 1"},
                   {"find-unused", Role::fixed, "the reducer looks for unused parameters"},
                   {"reference", Role::reference, "the mean of all shards' gradients"}},
      .worlds = {2, 3},
      .steps = 3,
      .axes = {},
      .claims = {kGradientsAgree, kGradientsEqual, ranks_finish()},
      .tables = {},
      .expect =
          [](const Cell& cell) {
            Expectation expectation;
            if (cell.role == Role::buggy) {
              expectation.breaks = {kGradientsAgree, kGradientsEqual};
              expectation.raises = {
                  {"Expected to have finished reduction in the prior iteration", 2, 1}};
            }
            return expectation;
          },
      .body = train,
  };
}

}  // namespace lockstep
