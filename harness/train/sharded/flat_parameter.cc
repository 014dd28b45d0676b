#include "harness/train/sharded/flat_parameter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "harness/comm/tensor_names.h"
#include "harness/train/ddp/gradient_divisors.h"
#include "harness/train/sharded/storage_memory.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

void require_flattenable(const std::string& of_name, const std::vector<NamedTensor>& parameters) {
  const at::Tensor& first = parameters.front().tensor;
  for (const NamedTensor& entry : parameters) {
    const at::Tensor& parameter = entry.tensor;
    const auto refuse = [&](const char* why) {
      throw internal_error(fmt::format("the parameters of {} cannot be one flat parameter: {}{}",
                                       of_name, entry.name, why));
    };
    if (!parameter.is_leaf()) refuse(" is part of one already");
    if (parameter.dim() == 0) refuse(" has no dimension: make it [1]");
    if (!parameter.is_floating_point()) refuse(" is not of floating type");
    if (parameter.scalar_type() != first.scalar_type()) refuse(" has another dtype");
    if (parameter.device() != first.device()) refuse(" is on another device");
    if (parameter.requires_grad() != first.requires_grad()) refuse(" alone is frozen, or is not");
  }
}

std::int64_t elements_of(const std::vector<NamedTensor>& parameters) {
  std::int64_t elements = 0;
  for (const NamedTensor& entry : parameters) elements += entry.tensor.numel();
  return elements;
}

/// Lets backward detect a change of the parameter after forward, through whichever tensor it was
/// made.
void share_version(const at::Tensor& tensor, const at::Tensor& leaf) {
  namespace impl = torch::autograd::impl;
  impl::set_version_counter(tensor, impl::version_counter(leaf));
}

}  // namespace

FlatParameter::FlatParameter(const std::string& of_module, std::vector<NamedTensor> parameters,
                             ProcessGroup& group, bool keeps_whole)
    : of_name_(of_module.empty() ? "the root" : of_module),
      parameters_(std::move(parameters)),
      group_(group),
      keeps_whole_(keeps_whole) {
  require_flattenable(of_name_, parameters_);
  flatten();
  cut();
  make_views();
  reshard(/*releases=*/!keeps_whole_);
}

void FlatParameter::flatten() {
  const at::NoGradGuard no_grad;
  const at::Tensor& first = parameters_.front().tensor;
  const bool requires_grad = first.requires_grad();
  const std::int64_t elements = elements_of(parameters_);
  const std::int64_t ranks = keeps_whole_ ? 1 : group_.size();
  const std::int64_t piece = (elements + ranks - 1) / ranks;
  buffer_ = at::zeros({piece * ranks}, first.options());
  std::int64_t offset = 0;
  for (NamedTensor& entry : parameters_) {
    at::Tensor& parameter = entry.tensor;
    buffer_.narrow(0, offset, parameter.numel()).copy_(parameter.reshape({-1}));
    offset += parameter.numel();
    shapes_.push_back(parameter.sizes().vec());
    parameter.requires_grad_(false);
  }
  leaf_ = at::empty({0}, first.options()).requires_grad_(requires_grad);
  leaf_.set_data(buffer_.narrow(0, 0, elements));
  local_ = keeps_whole_ ? buffer_ : buffer_.narrow(0, group_.rank() * piece, piece).clone();
}

void FlatParameter::cut() {
  const at::NoGradGuard no_grad;
  share_version(local_, leaf_);
  const std::int64_t begin = keeps_whole_ ? 0 : group_.rank() * local_.numel();
  const std::int64_t end = begin + local_.numel();
  std::int64_t offset = 0;
  for (const NamedTensor& entry : parameters_) {
    const at::Tensor& parameter = entry.tensor;
    share_version(parameter, leaf_);
    const std::int64_t elements = parameter.numel();
    const std::int64_t first = std::clamp(begin - offset, std::int64_t{0}, elements);
    const std::int64_t last = std::clamp(end - offset, first, elements);
    const Range range{std::clamp(offset - begin, std::int64_t{0}, local_.numel()), last - first};
    at::Tensor piece = local_.narrow(0, range.first, range.elements);
    Shard place{{elements}, {first}};
    if (keeps_whole_) {
      piece = piece.view(parameter.sizes());
      place = {parameter.sizes().vec(), std::vector<std::int64_t>(parameter.dim(), 0)};
    }
    piece = piece.detach().requires_grad_(requires_grad());
    name_parameter(piece, entry.name);
    pieces_.push_back({entry.name, piece, place});
    ranges_.push_back(range);
    offset += elements;
  }
}

void FlatParameter::unshard() {
  is_in_use_ = true;
  if (is_gathered_) return;
  const at::NoGradGuard no_grad;
  allocate_storage(buffer_);
  is_gathered_ = true;
  const CollectiveTag tag("parameters of " + of_name_);
  group_.all_gather(buffer_, local_, CallSite{});
}

void FlatParameter::reshard(bool releases) {
  is_in_use_ = false;
  if (!releases) return;
  release_storage(buffer_);
  is_gathered_ = false;
}

// The modules' tensor objects become the views: they get the views' memory and graph edge.
void FlatParameter::make_views() {
  const at::AutoGradMode records(true);
  std::vector<std::int64_t> sizes;
  for (const NamedTensor& entry : parameters_) sizes.push_back(entry.tensor.numel());
  const Tensors parts = leaf_.split_with_sizes(sizes);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor view = parts[i].view(shapes_[i]);
    at::Tensor& parameter = parameters_[i].tensor;
    parameter.set_data(view);
    if (!requires_grad()) continue;
    torch::autograd::impl::set_gradient_edge(parameter, torch::autograd::impl::gradient_edge(view));
  }
}

void FlatParameter::set_gradients_aside() {
  if (!requires_grad()) return;
  const at::NoGradGuard no_grad;
  if (keeps_whole_) {
    // If the pieces' gradients were dropped or replaced, the leaf's gradient follows.
    if (given_.defined()) leaf_.mutable_grad() = take_piece_gradients();
  } else if (!has_gradient()) {
    const at::Tensor before = take_piece_gradients();
    if (before.defined()) set_aside_ = before;
  }
}

/// Takes the pieces' gradients, whatever their origin; undefined if no piece has one.
at::Tensor FlatParameter::take_piece_gradients() {
  at::Tensor whole = std::exchange(given_, at::Tensor());
  const bool has_any = std::any_of(pieces_.begin(), pieces_.end(), [](const NamedShard& piece) {
    return piece.tensor.grad().defined();
  });
  if (!has_any) return {};
  if (!whole.defined()) whole = at::zeros_like(local_);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    at::Tensor own = whole.narrow(0, ranges_[i].first, ranges_[i].elements);
    const at::Tensor has = std::exchange(pieces_[i].tensor.mutable_grad(), at::Tensor());
    if (!has.defined()) {
      own.zero_();
    } else if (!has.is_alias_of(own)) {
      own.copy_(has.reshape({-1}));
    }
  }
  return whole;
}

void FlatParameter::give_pieces(const at::Tensor& gradient) {
  given_ = gradient;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    at::Tensor& piece = pieces_[i].tensor;
    piece.mutable_grad() =
        gradient.narrow(0, ranges_[i].first, ranges_[i].elements).view(piece.sizes());
  }
}

void FlatParameter::reduce_gradient() {
  const at::NoGradGuard no_grad;
  if (keeps_whole_) {
    at::Tensor& gradient = leaf_.mutable_grad();
    const GradientDivisors divisors = gradient_divisors(group_.size());
    if (divisors.before > 1) gradient.div_(divisors.before);
    const CollectiveTag tag("gradient of " + of_name_);
    group_.all_reduce(gradient, ReduceOp::sum, CallSite{});
    if (divisors.after > 1) gradient.div_(divisors.after);
    return;
  }
  const at::Tensor reduced = reduce_scatter(std::exchange(leaf_.mutable_grad(), at::Tensor()));
  if (set_aside_.defined()) {
    set_aside_.add_(reduced);
  } else {
    set_aside_ = reduced;
  }
}

/// This rank's piece of the mean over the ranks of `gradient`, which is overwritten.
at::Tensor FlatParameter::reduce_scatter(at::Tensor gradient) {
  const std::int64_t padding = buffer_.numel() - gradient.numel();
  if (padding > 0) gradient = at::constant_pad_nd(gradient, {0, padding});
  const GradientDivisors divisors = gradient_divisors(group_.size());
  if (divisors.before > 1) gradient.div_(divisors.before);
  at::Tensor reduced = at::empty({local_.numel()}, gradient.options());
  const CollectiveTag tag("gradient of " + of_name_);
  group_.reduce_scatter(reduced, gradient, ReduceOp::sum, CallSite{});
  if (divisors.after > 1) reduced.div_(divisors.after);
  return reduced;
}

void FlatParameter::hand_over_gradients(bool is_reduced) {
  if (!set_aside_.defined()) return;
  const at::Tensor gradient = std::exchange(set_aside_, at::Tensor());
  if (is_reduced) give_pieces(gradient);
}

void FlatParameter::show_whole_gradients() {
  if (keeps_whole_ && has_gradient()) give_pieces(leaf_.grad());
}

void FlatParameter::zero_grad() {
  leaf_.mutable_grad() = at::Tensor();
  given_ = at::Tensor();
  for (NamedShard& piece : pieces_) piece.tensor.mutable_grad() = at::Tensor();
}

}  // namespace lockstep
