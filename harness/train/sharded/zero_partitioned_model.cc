#include "harness/train/sharded/zero_partitioned_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/train/autograd/gradient_hook.h"
#include "harness/train/sharded/parameter_attributes.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

std::int64_t id_of(const at::Tensor& parameter) {
  return attribute(parameter, zero_attribute::kId).value();
}

/// [ranks, padded elements]
at::Tensor in_partitions(const at::Tensor& gradient, std::int64_t padded, int ranks) {
  const at::Tensor flat = gradient.reshape({-1});
  return at::constant_pad_nd(flat, {0, padded * ranks - flat.numel()}).view({ranks, padded});
}

}  // namespace

ZeroPartitionedModel::ZeroPartitionedModel(Module& root, ProcessGroup& group,
                                           const ZeroOptions& options)
    : group_(group), options_(options) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& entry : root.named_parameters()) partition(entry);
  find_members(root);
}

void ZeroPartitionedModel::partition(const NamedTensor& entry) {
  if (!members_.empty()) {
    const at::Tensor& first = members_.front().parameter.shard();
    if (entry.tensor.scalar_type() != first.scalar_type()) {
      throw internal_error(fmt::format("'{}' is of another dtype than the rest", entry.name));
    }
  }
  set_attribute(entry.tensor, zero_attribute::kId, static_cast<std::int64_t>(members_.size()));
  Member& member = members_.emplace_back(ShardedParameter(
      entry.name, entry.tensor, group_.rank(), group_.size(), std::nullopt, Cut::elements));
  member.gradient = at::zeros_like(member.parameter.shard().detach());
  shards_.push_back({entry.name, member.parameter.shard(), member.parameter.place()});
}

void ZeroPartitionedModel::find_members(Module& module) {
  std::vector<Member*>& own = of_module_[&module];
  if (!own.empty()) return;  // a part with two names
  for (const NamedTensor& entry : module.own_parameters()) {
    const auto found = std::find_if(members_.begin(), members_.end(), [&](Member& member) {
      return member.parameter.unsharded().is_same(entry.tensor);
    });
    own.push_back(&*found);
  }
  for (const Module::Part& part : module.children()) find_members(*part.module);
}

void ZeroPartitionedModel::hook_parameters() {
  for (Member& member : members_) {
    if (!member.parameter.shard().requires_grad()) continue;
    on_gradient(member.parameter.unsharded(), [weak = weak_from_this(), &member] {
      if (const auto self = weak.lock()) self->note_gradient(member);
    });
  }
}

void ZeroPartitionedModel::fetch(const Module& module) {
  std::vector<Member*> missing;
  for (Member* member : of_module_.at(&module)) {
    member->users.insert(&module);
    if (!member->is_whole) missing.push_back(member);
  }
  gather(missing);
}

void ZeroPartitionedModel::gather(const std::vector<Member*>& members) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  std::int64_t elements = 0;
  for (Member* member : members) {
    parts.push_back(member->parameter.padded_shard());
    elements += member->parameter.padded_elements();
  }
  if (members.empty()) return;
  at::Tensor all = at::empty({group_.size(), elements}, parts.front().options());
  at::Tensor own = all[group_.rank()];
  at::cat_out(own, parts);
  if (group_.size() > 1 && elements > 0) {
    const CollectiveTag tag("parameters from " + members.front()->parameter.name() + " on");
    at::Tensor flat = all.view(-1);
    group_.all_gather(flat, own, CallSite{});
  }
  std::int64_t begin = 0;
  for (Member* member : members) {
    ShardedParameter& parameter = member->parameter;
    parameter.allocate();
    parameter.buffer()
        .view({group_.size(), parameter.padded_elements()})
        .copy_(all.narrow(1, begin, parameter.padded_elements()));
    begin += parameter.padded_elements();
    member->is_whole = true;
  }
}

void ZeroPartitionedModel::release(const Module& module) {
  for (Member* member : of_module_.at(&module)) {
    member->users.erase(&module);
    if (!member->is_whole || !member->users.empty()) continue;
    member->parameter.release();
    member->is_whole = false;
  }
}

void ZeroPartitionedModel::note_gradient(Member& member) {
  const at::Tensor& parameter = member.parameter.unsharded();
  const std::int64_t elements = parameter.numel();
  if (bucket_elements_ + elements > options_.reduce_bucket_size) reduce_bucket();
  if (!is_gradient_ready(parameter)) return;
  bucket_.push_back(&member);
  bucket_elements_ += elements;
}

/// Reduces the current `.grad`, which may contain more than when it was recorded.
void ZeroPartitionedModel::reduce_bucket() {
  std::vector<Member*> members = std::exchange(bucket_, {});
  bucket_elements_ = 0;
  members.erase(std::remove_if(
                    members.begin(), members.end(),
                    [](Member* member) { return !member->parameter.unsharded().grad().defined(); }),
                members.end());
  if (members.empty()) return;
  std::stable_sort(members.begin(), members.end(), [](Member* left, Member* right) {
    return id_of(left->parameter.unsharded()) < id_of(right->parameter.unsharded());
  });
  const at::Tensor reduced = reduce_scatter(members);
  std::int64_t begin = 0;
  for (Member* member : members) {
    take(*member, reduced.narrow(0, begin, member->gradient.numel()));
    begin += member->parameter.padded_elements();
  }
}

/// The mean over the ranks: this rank's padded partitions, concatenated.
at::Tensor ZeroPartitionedModel::reduce_scatter(const std::vector<Member*>& members) {
  std::vector<at::Tensor> parts;
  for (Member* member : members) {
    parts.push_back(in_partitions(member->parameter.unsharded().grad(),
                                  member->parameter.padded_elements(), group_.size()));
  }
  at::Tensor input = at::cat(parts, /*dim=*/1).view(-1).div_(group_.size());
  if (group_.size() == 1) return input;
  at::Tensor output = at::empty({input.numel() / group_.size()}, input.options());
  if (output.numel() == 0) return output;
  const CollectiveTag tag("gradients from " + members.front()->parameter.name() + " on");
  group_.reduce_scatter(output, input, ReduceOp::sum, CallSite{});
  return output;
}

/// In the first micro-batch of a step it replaces the previous gradient, even an earlier result of
/// the same backward.
void ZeroPartitionedModel::take(Member& member, const at::Tensor& reduced) const {
  if (micro_step_ == 0) {
    member.gradient.copy_(reduced);
  } else {
    member.gradient.add_(reduced);
  }
  member.parameter.unsharded().mutable_grad() = at::Tensor();
}

void ZeroPartitionedModel::begin_forward() {
  if (std::exchange(has_finished_backward_, false)) ++micro_step_;
}

void ZeroPartitionedModel::finish_backward(bool /*is_boundary*/) {
  const at::NoGradGuard no_grad;
  reduce_bucket();
  for (Member& member : members_) {
    at::Tensor shard = member.parameter.shard();
    if (shard.requires_grad()) shard.mutable_grad() = member.gradient;
    member.users.clear();
    member.parameter.release();
    member.is_whole = false;
  }
  has_finished_backward_ = true;
}

void ZeroPartitionedModel::zero_grad() {
  micro_step_ = 0;
  has_finished_backward_ = false;
  for (Member& member : members_) {
    member.parameter.unsharded().mutable_grad() = at::Tensor();
    at::Tensor shard = member.parameter.shard();
    shard.mutable_grad() = at::Tensor();
  }
}

}  // namespace lockstep
