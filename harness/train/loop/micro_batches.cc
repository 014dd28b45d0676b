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
constexpr std::int64_t kSmallBucketBytes = 1;

/// Half of what the parameter is: as exact as that, the same on all ranks, another in each element.
at::Tensor prior_gradient(const at::Tensor& parameter) { return parameter.detach() / 2; }

void leave_prior_gradients(const Module& model) {
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) parameter.mutable_grad() = prior_gradient(parameter);
  }
}

/// What is left to be gone backward through.
at::Tensor mean_loss(const MicroBatchOptions& options, const ForwardPass& loss_of,
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
    return mean_loss(options, loss_of, {owner, step});
  });
  if (!options.prior) return;
  for (const at::Tensor& parameter : model.parameters()) {
    if (!parameter.requires_grad()) continue;
    const at::Tensor prior = prior_gradient(parameter);
    at::Tensor& gradient = parameter.mutable_grad();
    gradient = gradient.defined() ? prior + gradient : prior;
  }
}

void accumulate(int owner, Module& model, DistributedDataParallel* ddp,
                const MicroBatchOptions& options, const ForwardPass& loss_of, std::int64_t step) {
  if (options.prior) leave_prior_gradients(model);
  for (std::int64_t index = 0; index < options.accumulation; ++index) {
    std::optional<DistributedDataParallel::NoSync> quiet;
    if (ddp && options.no_sync && index + 1 < options.accumulation) quiet.emplace(*ddp);
    const MicroBatch batch{owner, step, index};
    (loss_of(batch, ddp) / options.accumulation).backward();
    if (options.after_backward) options.after_backward(batch);
  }
}

}  // namespace

std::vector<Axis> ddp_axes(std::vector<Axis> first) {
  const std::vector<std::string> off_on{"off", "on"};
  first.insert(first.end(), {
                                {"accumulation", {"1", "2", "4"}, "1"},
                                {"no_sync", off_on, "off"},
                                {"prior", off_on, "off"},
                                {"bucket_view", off_on, "off"},
                                {"find_unused", off_on, "off"},
                                {"static_graph", off_on, "off"},
                                {"bucket", {"standard", "small"}, "standard"},
                                {"dtype", {"float32", "float64", "bfloat16"}, "float32"},
                            });
  return first;
}

std::int64_t number_on(const Cell& cell, std::string_view axis) {
  return std::stoll(axis_value(cell, axis));
}

bool is_about(const Cell& cell, std::string_view words) {
  return cell.variant.find(words) != std::string::npos;
}

bool is_set(const Cell& cell, std::string_view axis, std::string_view value) {
  return has_axis(cell, axis) && axis_value(cell, axis) == value;
}

at::ScalarType dtype_of(const Cell& cell) {
  if (is_set(cell, "dtype", "float64")) return at::kDouble;
  if (is_set(cell, "dtype", "bfloat16")) return at::kBFloat16;
  return at::kFloat;
}

MicroBatchOptions micro_batch_options(const Cell& cell) {
  MicroBatchOptions options;
  options.ddp.gradient_as_bucket_view = is_set(cell, "bucket_view");
  options.ddp.find_unused_parameters = is_set(cell, "find_unused");
  options.ddp.static_graph = is_set(cell, "static_graph");
  if (is_set(cell, "bucket", "small")) options.ddp.bucket_bytes = kSmallBucketBytes;
  if (has_axis(cell, "accumulation")) {
    options.accumulation = number_on(cell, "accumulation");
  }
  options.no_sync = is_set(cell, "no_sync");
  options.prior = is_set(cell, "prior");
  return options;
}

/// Ten owners take the hundred seeds of a step; the next ten begin far above all bases.
std::uint64_t MicroBatch::seed(std::uint64_t base) const {
  constexpr std::int64_t kOwners = 10;
  constexpr std::int64_t kApart = 1'000'000'000;
  return base + static_cast<std::uint64_t>(owner / kOwners * kApart + step * 100 +
                                           owner % kOwners * 10 + index);
}

at::Tensor normal_input(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                        at::IntArrayRef shape) {
  const at::Generator generator = cpu_generator(rank.seed(batch.seed(base)));
  return rank.input(at::randn(shape, generator, at::TensorOptions()).to(dtype_of(rank.cell())));
}

at::Tensor squared_error(Rank& rank, const MicroBatch& batch, Module& model,
                         const std::vector<std::int64_t>& rows, std::int64_t inputs,
                         std::int64_t outputs) {
  std::vector<std::int64_t> input_shape = rows;
  input_shape.push_back(inputs);
  std::vector<std::int64_t> target_shape = rows;
  target_shape.push_back(outputs);
  const at::Tensor output = model(normal_input(rank, batch, 1'000'000, input_shape));
  return (output - normal_input(rank, batch, 2'000'000, target_shape)).pow(2).mean();
}

ImageText image_text_of(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        std::int64_t rows, std::int64_t length) {
  const at::Generator texts = cpu_generator(rank.seed(batch.seed(2'000'000)));
  return {normal_input(rank, batch, 1'000'000, {rows, sizes.channels, sizes.height, sizes.width}),
          at::randint(sizes.vocabulary, {rows, length}, texts, at::kLong)};
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
