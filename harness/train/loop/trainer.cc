#include "harness/train/loop/trainer.h"

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"

namespace lockstep {

namespace {

constexpr double kLearningRate = 0.05;

}  // namespace

Trainer::Trainer(Rank& rank, Module& model, std::optional<DdpOptions> ddp)
    : rank_(rank), model_(model), optimizer_(model.parameters(), kLearningRate) {
  name_parameters(model);
  const Cell& cell = rank.cell();
  if (cell.role == Role::reference || !ddp || is_set(cell, "wrapper", "by-hand")) return;
  ddp_.emplace(model, rank.group(), *ddp);
}

at::Tensor Trainer::output(const at::Tensor& input) {
  return ddp_ ? ddp_->forward(input) : model_.forward(input);
}

void Trainer::backward(const at::Tensor& loss, CallSite site) {
  loss.backward();
  if (!ddp_) average_each(rank_.group(), model_.parameters(), site);
}

void Trainer::finish_step(bool steps, const std::function<void()>& after_step) {
  rank_.observe_gradients(Phase::pre_step, model_);
  if (steps) optimizer_.step();
  if (after_step) after_step();
  rank_.observe_parameters(Phase::post_step, model_);
}

}  // namespace lockstep
