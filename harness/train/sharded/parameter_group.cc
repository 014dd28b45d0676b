#include "harness/train/sharded/parameter_group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_chunk_cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/split_with_sizes_copy.h>
#include <fmt/format.h>

#include <utility>

#include "harness/train/ddp/gradient_divisors.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

void require_one_dtype(const std::string& of_name, std::vector<ShardedParameter>& parameters) {
  for (ShardedParameter& parameter : parameters) {
    if (parameter.shard().scalar_type() == parameters.front().shard().scalar_type()) continue;
    throw internal_error(
        fmt::format("the parameters of {} are sharded together and differ in dtype", of_name));
  }
}

/// By torch's rule, which treats float64 like half precision.
bool has_wide_range(at::ScalarType dtype) { return dtype == at::kFloat || dtype == at::kBFloat16; }

}  // namespace

ParameterGroup::ParameterGroup(const std::string& name, std::vector<ShardedParameter> parameters,
                               ProcessGroup& group, const ParameterGroupOptions& options)
    : of_name_(name.empty() ? "the root" : name),
      parameters_(std::move(parameters)),
      group_(group),
      options_(options),
      kept_gradients_(parameters_.size()) {
  require_one_dtype(of_name_, parameters_);
}

void ParameterGroup::unshard() {
  if (gathered_.defined() || is_unsharded_) return;
  const at::NoGradGuard no_grad;
  std::int64_t elements = 0;
  for (const ShardedParameter& parameter : parameters_) elements += parameter.padded_elements();
  const at::Tensor& first = parameters_.front().buffer();
  gathered_ = at::empty({group_.size(), elements}, first.options());
  at::Tensor own = gathered_[group_.rank()];
  std::int64_t offset = 0;
  for (const ShardedParameter& parameter : parameters_) {
    own.narrow(0, offset, parameter.padded_elements()).copy_(parameter.padded_shard());
    offset += parameter.padded_elements();
  }
  if (group_.size() == 1) return;
  const CollectiveTag tag("parameters of " + of_name_);
  at::Tensor all = gathered_.view(-1);
  group_.all_gather(all, own, CallSite{});
}

void ParameterGroup::finish_unshard() {
  if (!gathered_.defined()) return;
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> sizes;
  std::vector<at::Tensor> buffers;
  for (ShardedParameter& parameter : parameters_) {
    parameter.allocate();
    sizes.push_back(parameter.padded_elements());
    buffers.push_back(parameter.buffer().view({group_.size(), parameter.padded_elements()}));
  }
  at::split_with_sizes_copy_out(buffers, gathered_, sizes, /*dim=*/1);
  gathered_ = at::Tensor();
  is_unsharded_ = true;
}

void ParameterGroup::reshard() {
  if (state == TrainingState::forward && !options_.reshard_after_forward) return;
  if (!is_unsharded_) return;
  for (ShardedParameter& parameter : parameters_) parameter.release();
  is_unsharded_ = false;
}

void ParameterGroup::post_backward() {
  state = TrainingState::post_backward;
  Gradients gradients;
  if (options_.reduces_gradients) {
    gradients = take_gradients();
  } else {
    keep_gradients();
  }
  if (options_.reshard_after_backward) reshard();
  if (!gradients.parameters.empty()) reduce(gradients);
}

/// In non-reducing backwards, gradients with a separate reduce dtype are accumulated in it.
void ParameterGroup::keep_gradients() {
  const at::NoGradGuard no_grad;
  if (!options_.reduce_dtype) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].unsharded().mutable_grad();
    if (!gradient.defined() || gradient.scalar_type() == *options_.reduce_dtype) continue;
    const at::Tensor taken = std::exchange(gradient, at::Tensor());
    if (kept_gradients_[i].defined()) {
      kept_gradients_[i].add_(taken);
    } else {
      kept_gradients_[i] = taken.to(*options_.reduce_dtype);
    }
  }
}

ParameterGroup::Gradients ParameterGroup::take_gradients() {
  const at::NoGradGuard no_grad;
  Gradients gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor last = std::exchange(parameters_[i].unsharded().mutable_grad(), at::Tensor());
    at::Tensor whole = std::exchange(kept_gradients_[i], at::Tensor());
    if (!whole.defined()) {
      whole = last;
    } else if (last.defined()) {
      whole.add_(last);
    }
    if (!whole.defined()) continue;
    gradients.parameters.push_back(&parameters_[i]);
    gradients.whole.push_back(whole);
  }
  return gradients;
}

void ParameterGroup::reduce(const Gradients& gradients) {
  const at::NoGradGuard no_grad;
  std::int64_t elements = 0;
  for (const ShardedParameter* parameter : gradients.parameters) {
    elements += parameter->padded_elements();
  }
  const at::Tensor& first = gradients.whole.front();
  at::Tensor input =
      at::empty({group_.size(), elements},
                first.options().dtype(options_.reduce_dtype.value_or(first.scalar_type())));
  at::_chunk_cat_out(input, gradients.whole, /*dim=*/0, group_.size());
  const at::Tensor reduced =
      reduce_scatter(input).to(gradients.parameters.front()->shard().scalar_type());
  std::int64_t offset = 0;
  for (ShardedParameter* parameter : gradients.parameters) {
    const at::Tensor& shard = parameter->shard();
    parameter->accumulate(reduced.narrow(0, offset, shard.numel()).view(shard.sizes()));
    offset += parameter->padded_elements();
  }
}

/// This rank's part of the mean over the ranks of `input` [ranks, elements].
at::Tensor ParameterGroup::reduce_scatter(at::Tensor& input) {
  if (group_.size() == 1) return input.view(-1);
  at::Tensor output = at::empty({input.size(1)}, input.options());
  at::Tensor flat = input.view(-1);
  const CollectiveTag tag("gradients of " + of_name_);
  if (has_wide_range(input.scalar_type())) {
    group_.reduce_scatter(output, flat, ReduceOp::average, CallSite{});
    return output;
  }
  const GradientDivisors divisors = gradient_divisors(group_.size());
  if (divisors.before != 1) flat.div_(divisors.before);
  group_.reduce_scatter(output, flat, ReduceOp::sum, CallSite{});
  if (divisors.after != 1) output.div_(divisors.after);
  return output;
}

}  // namespace lockstep
