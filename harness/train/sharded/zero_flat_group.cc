#include "harness/train/sharded/zero_flat_group.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "harness/comm/tensor_names.h"
#include "harness/train/autograd/gradient_hook.h"
#include "harness/train/sharded/parameter_attributes.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

/// DeepSpeed's partitions begin at a multiple of this many elements, for NCCL.
constexpr std::int64_t kAlignment = 2;

std::vector<NamedTensor> trainable_of(const Module& root) {
  std::vector<NamedTensor> trainable = root.named_parameters();
  trainable.erase(
      std::remove_if(trainable.begin(), trainable.end(),
                     [](const NamedTensor& entry) { return !entry.tensor.requires_grad(); }),
      trainable.end());
  if (trainable.empty()) throw internal_error("a model without a trainable parameter");
  return trainable;
}

PartitionLayout layout_of(const std::vector<NamedTensor>& trainable, int partitions) {
  std::vector<std::int64_t> sizes;
  for (const NamedTensor& entry : trainable) sizes.push_back(entry.tensor.numel());
  return {sizes, partitions, kAlignment};
}

}  // namespace

ZeroFlatGroup::ZeroFlatGroup(Module& root, ProcessGroup& group, const ZeroOptions& options)
    : group_(group), options_(options) {
  const at::NoGradGuard no_grad;
  flatten(trainable_of(root));
  list_shards(root);
}

void ZeroFlatGroup::flatten(const std::vector<NamedTensor>& trainable) {
  const PartitionLayout layout = layout_of(trainable, group_.size());
  flat_ = at::zeros({layout.elements()}, trainable.front().tensor.options());
  for (const NamedTensor& entry : trainable) {
    const at::Tensor& tensor = entry.tensor;
    if (tensor.scalar_type() != flat_.scalar_type()) {
      throw internal_error(
          fmt::format("'{}' is of another dtype than the rest of its group", entry.name));
    }
    const std::size_t index = members_.size();
    const at::Tensor place = flat_.narrow(0, layout.begin(index), tensor.numel());
    place.copy_(tensor.reshape({-1}));
    Member member{.name = entry.name,
                  .parameter = tensor,
                  .shard = {},
                  .own = layout.piece(index, group_.rank())};
    member.parameter.set_data(place.view(tensor.sizes()));
    set_attribute(tensor, zero_attribute::kIndexInGroup, static_cast<std::int64_t>(index));
    members_.push_back(std::move(member));
  }
  const std::int64_t size = layout.partition_size();
  partition_ = flat_.narrow(0, group_.rank() * size, size).clone();
  for (Member& member : members_) {
    member.shard =
        partition_.narrow(0, member.own.offset, member.own.elements).detach().requires_grad_(true);
    name_parameter(member.shard, member.name);
  }
  keep_books(layout);
}

void ZeroFlatGroup::keep_books(const PartitionLayout& layout) {
  const PartitionBookkeeping rule = options_.bookkeeping;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    const bool begins_here = member.own.first == 0;
    const bool is_hidden = i > 0 && layout.begin(i - 1) == layout.begin(i);
    member.read_from = rule == PartitionBookkeeping::offset_forgotten ? 0 : member.own.first;
    if (rule == PartitionBookkeeping::only_where_it_begins) member.takes_mean = begins_here;
    if (rule == PartitionBookkeeping::first_at_each_place) {
      member.takes_mean = !begins_here || !is_hidden;
    }
  }
}

/// No rank steps an untrained parameter: its part is empty on all ranks.
void ZeroFlatGroup::list_shards(const Module& root) {
  std::map<std::string, const Member*> by_name;
  for (const Member& member : members_) by_name[member.name] = &member;
  for (const NamedTensor& entry : root.named_parameters()) {
    NamedShard shard{entry.name, {}, {{entry.tensor.numel()}, {0}}};
    if (const auto found = by_name.find(entry.name); found != by_name.end()) {
      shard.tensor = found->second->shard;
      shard.place.offset.front() = found->second->own.first;
    } else {
      shard.tensor = entry.tensor.detach().reshape({-1}).narrow(0, 0, 0);
    }
    shards_.push_back(std::move(shard));
  }
}

void ZeroFlatGroup::hook_parameters() {
  if (options_.stage == 1) return;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    on_gradient(members_[i].parameter, [weak = weak_from_this(), i] {
      if (const auto self = weak.lock()) self->note_gradient(i);
    });
  }
}

/// The gradient moves into the bucket: later additions to `.grad` go there.
void ZeroFlatGroup::note_gradient(std::size_t index) {
  const at::Tensor& parameter = members_[index].parameter;
  const std::int64_t elements = parameter.numel();
  if (elements == 0) return;
  if (bucket_elements_ + elements > options_.reduce_bucket_size) reduce_bucket();
  if (!is_gradient_ready(parameter)) return;
  at::Tensor gradient = parameter.grad();
  at::Tensor flat = gradient.reshape({-1});
  if (elements <= options_.reduce_bucket_size) {
    flat = flat.clone();
    gradient.set_data(flat.view(gradient.sizes()));
  }
  bucket_.push_back({index, flat});
  bucket_elements_ += elements;
}

void ZeroFlatGroup::reduce_bucket() {
  bucket_elements_ = 0;
  std::vector<Entry> entries = std::exchange(bucket_, {});
  if (entries.empty()) return;
  all_reduce(entries);
  for (const Entry& entry : entries) keep_or_drop(members_[entry.member]);
}

/// Every rank receives all sums and takes those of its own partition.
void ZeroFlatGroup::all_reduce(std::vector<Entry>& entries) {
  std::vector<at::Tensor> parts;
  for (Entry& entry : entries) parts.push_back(entry.flat.div_(group_.size()));
  at::Tensor sums = at::cat(parts);
  if (group_.size() > 1) {
    const CollectiveTag tag("gradients from " + members_[entries.front().member].name + " on");
    group_.all_reduce(sums, ReduceOp::sum, CallSite{});
  }
  std::int64_t begin = 0;
  for (Entry& entry : entries) {
    const Member& member = members_[entry.member];
    if (member.takes_mean) {
      entry.flat.narrow(0, member.own.first, member.own.elements)
          .copy_(sums.narrow(0, begin + member.own.first, member.own.elements));
    }
    begin += entry.flat.numel();
  }
}

void ZeroFlatGroup::keep_or_drop(Member& member) const {
  at::Tensor& gradient = member.parameter.mutable_grad();
  if (!gradient.defined()) return;
  if (member.own.elements > 0) {
    gradient.set_data(gradient.clone());
  } else if (options_.stage == 2) {
    gradient = at::Tensor();
  }
}

at::Tensor ZeroFlatGroup::piece_of_gradient(const Member& member) const {
  const at::Tensor& gradient = member.parameter.grad();
  if (!gradient.defined()) return at::zeros({member.own.elements}, partition_.options());
  return gradient.reshape({-1}).narrow(0, member.read_from, member.own.elements).clone();
}

void ZeroFlatGroup::finish_backward(bool is_boundary) {
  const at::NoGradGuard no_grad;
  if (options_.stage == 1) {
    if (!is_boundary) return;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].parameter.grad().defined()) note_gradient(i);
    }
  }
  reduce_bucket();
  for (Member& member : members_) {
    const at::Tensor piece = piece_of_gradient(member);
    at::Tensor& sum = member.shard.mutable_grad();
    if (sum.defined()) {
      sum.add_(piece);
    } else {
      sum = piece;
    }
    member.parameter.mutable_grad() = at::Tensor();
  }
}

void ZeroFlatGroup::zero_grad() {
  for (Member& member : members_) {
    member.parameter.mutable_grad() = at::Tensor();
    member.shard.mutable_grad() = at::Tensor();
  }
}

void ZeroFlatGroup::finish_step() {
  const at::NoGradGuard no_grad;
  at::Tensor own = flat_.narrow(0, group_.rank() * partition_.numel(), partition_.numel());
  own.copy_(partition_);
  if (group_.size() == 1) return;
  const CollectiveTag tag("parameters");
  group_.all_gather(flat_, own, CallSite{});
}

}  // namespace lockstep
