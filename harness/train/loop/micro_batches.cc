#include "harness/train/loop/micro_batches.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

/// A bucket takes one parameter: every one is larger than this.
constexpr std::int64_t kSmallBucketBytes_ = 1;

/// Half of what the parameter is: as exact as that, the same on all ranks, another in each element.
at::Tensor prior_gradient_(const at::Tensor& parameter) { return parameter.detach() / 2; }

void leave_prior_gradients_(const Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameter.mutable_grad() = prior_gradient_(parameter);
  }
}

/// What is left to be gone backward through.
at::Tensor mean_loss_(const MicroBatchOptions& options, const ForwardPass& loss_of,
                      MicroBatch batch) {
  at::Tensor sum;
  for (batch.index = 0; batch.index < options.accumulation; ++batch.index) {
    if (sum.defined() && options.reference_adds_gradients) {
      sum.backward();
      sum = at::Tensor();
    }
    const at::Tensor loss = loss_of(batch, nullptr) / options.accumulation;
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

void compute_reference(Rank& rank, Module& model, const MicroBatchOptions& options,
                       const ForwardPass& loss_of, std::int64_t step) {
  rank.mean_of_rank_gradients(model, [&](int owner) {
    return mean_loss_(options, loss_of, {owner, step});
  });
  if (!options.prior) return;
  for (const at::Tensor& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    const at::Tensor prior = prior_gradient_(parameter);
    at::Tensor& gradient = parameter.mutable_grad();
    gradient = gradient.defined() ? prior + gradient : prior;
  }
}

void accumulate(int owner, Module& model, DistributedDataParallel* ddp,
                const MicroBatchOptions& options, const ForwardPass& loss_of, std::int64_t step) {
  if (options.prior) leave_prior_gradients_(model);
  for (std::int64_t index = 0; index < options.accumulation; ++index) {
    std::optional<DistributedDataParallel::NoSync> quiet;
    if (ddp && options.no_sync && index + 1 < options.accumulation) quiet.emplace(*ddp);
    const MicroBatch batch{owner, step, index};
    (loss_of(batch, ddp) / options.accumulation).backward();
    if (options.after_backward) options.after_backward(batch);
  }
}

}  // namespace

bool is_about(const Cell& cell, std::string_view words) {
  return cell.variant.find(words) != std::string::npos;
}

MicroBatchOptions micro_batch_options(const Cell& cell) {
  MicroBatchOptions options;
  options.ddp.gradient_as_bucket_view = is_set(cell, "bucket_view");
  options.ddp.find_unused_parameters = is_set(cell, "find_unused");
  options.ddp.static_graph = is_set(cell, "static_graph");
  if (is_set(cell, "bucket", "small")) options.ddp.bucket_bytes = kSmallBucketBytes_;
  if (has_axis(cell, "accumulation")) {
    options.accumulation = number_on(cell, "accumulation");
  }
  options.no_sync = is_set(cell, "no_sync");
  options.prior = is_set(cell, "prior");
  return options;
}

void train_in_micro_batches(Rank& rank, Module& model, const MicroBatchOptions& options,
                            const ForwardPass& loss_of) {
  name_parameters(model);
  Sgd optimizer(model.parameters(), options.learning_rate);
  std::optional<DistributedDataParallel> ddp;
  const bool is_reference = rank.cell().role == Role::reference;
  if (!is_reference && options.wraps) ddp.emplace(model, rank.group(), options.ddp);
  rank.train([&](std::int64_t step) {
    observe_placement(rank, model);
    model.zero_grad();
    if (is_reference) {
      compute_reference(rank, model, options, loss_of, step);
    } else {
      accumulate(rank.rank(), model, ddp ? &*ddp : nullptr, options, loss_of, step);
    }
    rank.observe_gradients(Phase::pre_step, model);
    optimizer.step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

}  // namespace lockstep
