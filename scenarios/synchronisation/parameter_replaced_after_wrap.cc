// A trainer replaces parameters of a model that DistributedDataParallel has wrapped. The reducer's
// hooks are on the nodes that accumulate the old parameters' gradients. If a layer is assigned
// anew, the reducer waits for the old one. If every parameter gets a new node, as a conversion to
// another type or device does, no hook ever runs. Then nothing is reduced and nothing complains.

#include <ATen/core/grad_mode.h>

#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kRows = 4;

class Replaceable : public Module {
 public:
  explicit Replaceable(const at::Generator& generator)
      : body_(register_module("body", std::make_shared<Linear>(kWidth, kWidth, generator))),
        head_(register_module("head", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return head_->forward(body_->forward(input).tanh());
  }

  /// The parameters of `head` take the place of the old ones.
  void assign_head(std::shared_ptr<Linear> head) {
    head_ = std::move(head);
    replace_module("head", head_);
  }

  /// The old parameters take the values of `head`.
  void copy_head(const Linear& head) {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> values = head.parameters();
    const std::vector<at::Tensor> kept = head_->parameters();
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i].copy_(values[i]);
  }

 private:
  std::shared_ptr<Linear> body_, head_;
};

/// To a wider type and back: the same values in the same tensors. As on the way to another device
/// and back, torch drops the node that accumulates the gradient of a tensor of another type.
void convert_and_back(Module& model) {
  model.to(at::kDouble);
  model.to(at::kFloat);
}

void change_below_wrapper(Rank& rank, Training& training, Replaceable& model,
                          const std::shared_ptr<Linear>& head) {
  if (rank.has("head", "assigned")) {
    model.assign_head(head);
    model.to(rank.device());
    name_parameters(model);
    training.renew_optimizer();
  }
  if (rank.has("head", "copied")) model.copy_head(*head);
  if (rank.has("model", "converted")) convert_and_back(model);
  if (rank.has("wrapped", "again")) training.renew_wrapper();
}

void train(Rank& rank) {
  Replaceable model(cpu_generator(rank.seed(0)));
  const auto head = std::make_shared<Linear>(kWidth, kWidth, cpu_generator(rank.seed(1000)));
  const bool is_late = rank.has("head", "assigned") || rank.has("head", "copied");
  if (!is_late) model.assign_head(head);
  Training training(rank, model, training_options(rank));
  rank.at_branch();
  change_below_wrapper(rank, training, model, head);
  training.run({.loss = [&](const MicroBatch& batch) {
    const auto forward = [&](const at::Tensor& input) { return training.forward(input); };
    return squared_error(rank, batch, forward, {kRows}, kWidth, kWidth);
  }});
}

/// All gradients share a bucket with those of the old head, which never come.
Expectation expect_reducer_waits(const Cell& cell) {
  if (cell.steps == 1) return expect_never_reduced(cell);
  return expect_error_after_wrong_step(cell, ddp_error::kPriorUnfinished, {});
}

}  // namespace

Scenario parameter_replaced_after_wrap() {
  return {
      .summary =
          "Parameters are replaced after DDP has put its hooks on the old ones: gradients are not "
          "reduced, with a late error or with none.",
      .origin = {"PyTorch", "pytorch/pytorch#12603 (2018-11-14) and #104336 (2023-06-28)",
                 "a layer assigned below the wrapper; a model that went to another place and back; "
                 "the maintainers' repairs: another wrapper, and new values in the old tensors",
                 "the way to the CPU and back, which needs a second device: float64 and back"},
      .variants =
          {buggy("converted-and-back",
                 "the model is converted to float64 and back, which drops every hook: no error",
                 "head=early model=converted",
                 [](const Cell& cell) { return expect_never_reduced(cell); }),
           buggy("head-assigned",
                 "the wrapped model gets a new head, and the reducer waits for the old one",
                 "head=assigned model=kept", expect_reducer_waits),
           wrong_fix("head-assigned-finds-unused",
                     "find_unused_parameters silences the error: the new head is not registered",
                     "head=assigned model=kept find_unused=on",
                     [](const Cell& cell) { return expect_apart(cell, {"head.*"}); }),
           fixed("head-copied", "the old head's parameters take the values of the new one",
                 "head=copied model=kept"),
           fixed("head-assigned-before-wrap", "the new head is there before the wrapper",
                 "head=early model=kept"),
           fixed("wrapped-again", "a new wrapper is made after the head was assigned",
                 "head=assigned model=kept wrapped=again"),
           fixed("converted-and-wrapped-again",
                 "a new wrapper is made after the model was converted and back",
                 "head=early model=converted wrapped=again"),
           reference("reference", "one process: the mean of all shards' gradients")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
