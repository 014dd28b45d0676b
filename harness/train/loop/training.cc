#include "harness/train/loop/training.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

/// Smaller than any parameter, so each bucket takes one.
constexpr std::int64_t kSmallBucketBytes = 1;

/// Half of the parameter: exact, the same on all ranks, and different in each element.
at::Tensor prior_gradient(const at::Tensor& parameter) { return parameter.detach() / 2; }

void leave_prior_gradients(const Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameter.mutable_grad() = prior_gradient(parameter);
  }
}

void add_prior_gradients(const Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    const at::Tensor prior = prior_gradient(parameter);
    at::Tensor& gradient = parameter.mutable_grad();
    gradient = gradient.defined() ? prior + gradient : prior;
  }
}

/// A rank's share of the reference's loss, without backward.
at::Tensor mean_loss(const TrainingOptions& options, const StepHooks& hooks, MicroBatch batch) {
  at::Tensor sum;
  for (batch.index = 0; batch.index < options.accumulation; ++batch.index) {
    if (sum.defined() && options.reference_adds_gradients) {
      sum.backward();
      sum = at::Tensor();
    }
    const at::Tensor loss = hooks.loss(batch) / options.accumulation;
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

}  // namespace

TrainingOptions training_options(const Cell& cell) {
  TrainingOptions options;
  if (is_set(cell, "wrapper", "by-hand")) options.sync = GradientSync::by_hand;
  options.ddp.gradient_as_bucket_view = is_set(cell, "bucket_view");
  options.ddp.find_unused_parameters = is_set(cell, "find_unused");
  options.ddp.static_graph = is_set(cell, "static_graph");
  if (is_set(cell, "bucket", "small")) options.ddp.bucket_bytes = kSmallBucketBytes;
  if (has_axis(cell, "accumulation")) options.accumulation = number_on(cell, "accumulation");
  options.no_sync = is_set(cell, "no_sync");
  options.prior = is_set(cell, "prior");
  if (has_axis(cell, "optimizer")) options.optimizer = axis_value(cell, "optimizer");
  return options;
}

TrainingOptions training_options(const Rank& rank) {
  for (const char* axis : {"wrapper", "bucket_view", "find_unused", "static_graph", "bucket",
                           "accumulation", "no_sync", "prior", "optimizer"}) {
    static_cast<void>(rank.has(axis));
  }
  return training_options(rank.cell());
}

Training::Training(Rank& rank, Module& model, TrainingOptions options, ShardedModel* sharded)
    : rank_(rank), model_(model), sharded_(sharded), options_(std::move(options)) {
  if (!sharded_ && !rank_.device().is_cpu()) model_.to(rank_.device());
  if (!sharded_) name_parameters(model_);
  renew_optimizer();
  if (rank_.is_reference()) {
    options_.sync = GradientSync::none;
  } else if (options_.sync == GradientSync::ddp && !sharded_) {
    ddp_.emplace(model_, rank_.group(), options_.ddp);
  }
}

void Training::renew_optimizer() {
  optimizer_ =
      make_optimizer(options_.optimizer, sharded_ ? sharded_->parameters() : model_.parameters(),
                     options_.learning_rate);
}

void Training::renew_wrapper() {
  if (!ddp_) return;
  ddp_.reset();  // its hooks are gone before the new ones come
  ddp_.emplace(model_, rank_.group(), options_.ddp);
}

at::Tensor Training::forward(const at::Tensor& input) {
  return ddp_ ? ddp_->forward(input) : model_(input);
}

at::Tensor Training::forward(const std::function<at::Tensor()>& module_forward) {
  return forward([&] { return std::vector{module_forward()}; }).front();
}

std::vector<at::Tensor> Training::forward(
    const std::function<std::vector<at::Tensor>()>& module_forward) {
  return ddp_ ? ddp_->forward(module_forward) : module_forward();
}

void Training::backward(const at::Tensor& loss, CallSite site) {
  loss.backward();
  if (options_.sync == GradientSync::by_hand)
    average_each(rank_.group(), model_.parameters(), site);
}

void Training::run(const StepHooks& hooks, CallSite site) {
  rank_.train([&](std::int64_t step) { train_step(hooks, step, site); });
}

void Training::train_step(const StepHooks& hooks, std::int64_t step, CallSite site) {
  if (hooks.before) hooks.before(step);
  if (!sharded_) observe_placement(rank_, model_);
  sharded_ ? sharded_->zero_grad() : model_.zero_grad();
  if (!compute_gradients(hooks, step, site)) return;
  observe_gradients();
  update(hooks, step);
  observe_parameters();
  observe_allocation(rank_);
  if (hooks.after) hooks.after(step);
}

bool Training::compute_gradients(const StepHooks& hooks, std::int64_t step, CallSite site) {
  if (rank_.is_reference()) {
    compute_reference(hooks, step, site);
    return true;
  }
  if (hooks.gradients) {
    if (!hooks.gradients(step)) return false;
  } else {
    train_micro_batches(hooks, step, site);
    if (options_.sync == GradientSync::by_hand) {
      average_each(rank_.group(), model_.parameters(), site);
    }
  }
  if (hooks.reduce) hooks.reduce(step);
  return true;
}

void Training::compute_reference(const StepHooks& hooks, std::int64_t step, CallSite site) {
  rank_.at_branch(site.line);
  if (hooks.reference) return hooks.reference(step);
  at::Tensor logged = at::zeros({});
  rank_.mean_of_rank_gradients(model_, [&](int owner) {
    const at::Tensor loss = mean_loss(options_, hooks, {owner, step});
    if (hooks.logged) logged += loss.detach().to(logged.device());
    return loss;
  });
  if (options_.prior) add_prior_gradients(model_);
  if (hooks.logged) hooks.logged(logged / rank_.world_size());
}

void Training::train_micro_batches(const StepHooks& hooks, std::int64_t step, CallSite site) {
  if (options_.prior) leave_prior_gradients(model_);
  at::Tensor logged = hooks.logged ? at::zeros({}, rank_.group().device()) : at::Tensor();
  for (std::int64_t index = 0; index < options_.accumulation; ++index) {
    const MicroBatch batch{rank_.rank(), step, index};
    const bool is_last = index + 1 == options_.accumulation;
    std::optional<DistributedDataParallel::NoSync> quiet;
    if (ddp_ && options_.no_sync && !is_last) quiet.emplace(*ddp_);
    if (sharded_) sharded_->set_requires_gradient_sync(!options_.no_sync || is_last);
    const at::Tensor loss = hooks.loss(batch);
    const at::Tensor share = loss / options_.accumulation;
    if (hooks.logged) logged += share.detach().to(logged.device());
    hooks.backward ? hooks.backward(share, batch) : share.backward();
  }
  if (!hooks.logged) return;
  rank_.group().all_reduce(logged, ReduceOp::average, site);
  hooks.logged(logged);
}

void Training::update(const StepHooks& hooks, std::int64_t step) {
  const auto move = [&] {
    hooks.update ? hooks.update(step) : optimizer_->step();
    if (sharded_) sharded_->finish_step();
  };
  if (!options_.observes_updates) return move();
  sharded_ ? rank_.observe_update(*sharded_, move) : rank_.observe_update(model_, move);
}

void Training::observe_gradients() {
  sharded_ ? rank_.observe_gradients(Phase::pre_step, *sharded_)
           : rank_.observe_gradients(Phase::pre_step, model_);
}

void Training::observe_parameters() {
  sharded_ ? rank_.observe_parameters(Phase::post_step, *sharded_)
           : rank_.observe_parameters(Phase::post_step, model_);
}

}  // namespace lockstep
