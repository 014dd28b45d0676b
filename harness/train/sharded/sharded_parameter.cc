#include "harness/train/sharded/sharded_parameter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/comm/tensor_names.h"
#include "harness/train/sharded/storage_memory.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

void require_shardable(const std::string& name, const at::Tensor& parameter, Cut cut) {
  if (cut == Cut::rows && (parameter.dim() == 0 || parameter.numel() == 0)) {
    throw internal_error(
        fmt::format("the parameter '{}' has no rows to shard: make it [1] at least", name));
  }
  if (!parameter.is_contiguous()) {
    throw internal_error(fmt::format("the parameter '{}' is sharded and not contiguous", name));
  }
}

}  // namespace

ShardedParameter::ShardedParameter(std::string name, at::Tensor parameter, int rank, int world_size,
                                   std::optional<at::ScalarType> compute_dtype, Cut cut)
    : name_(std::move(name)), unsharded_(std::move(parameter)), shape_(unsharded_.sizes().vec()) {
  require_shardable(name_, unsharded_, cut);
  const std::vector<std::int64_t> whole_shape = shape_;
  if (cut == Cut::elements) shape_ = {unsharded_.numel()};
  const at::NoGradGuard no_grad;
  const std::int64_t rows = shape_.front();
  const std::int64_t most = (rows + world_size - 1) / world_size;
  first_row_ = std::min(rank * most, rows);
  const std::int64_t own = std::min(most, rows - first_row_);

  std::vector<std::int64_t> padded_shape = shape_;
  padded_shape.front() = most;
  const at::Tensor padded = at::zeros(padded_shape, unsharded_.options());
  shard_ = padded.narrow(0, 0, own);
  shard_.copy_(unsharded_.view(shape_).narrow(0, first_row_, own));
  shard_ = shard_.detach().requires_grad_(unsharded_.requires_grad());
  name_parameter(shard_, name_);
  padded_shard_ = padded.view(-1);

  buffer_ = at::empty({padded_shard_.numel() * world_size},
                      padded.options().dtype(compute_dtype.value_or(padded.scalar_type())));
  unsharded_.set_data(buffer_.narrow(0, 0, unsharded_.numel()).view(whole_shape));
  release();
}

Shard ShardedParameter::place() const {
  Shard place{shape_, std::vector<std::int64_t>(shape_.size(), 0)};
  place.offset.front() = first_row_;
  return place;
}

void ShardedParameter::allocate() { allocate_storage(buffer_); }

void ShardedParameter::release() { release_storage(buffer_); }

void ShardedParameter::accumulate(const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  at::Tensor& sum = shard_.mutable_grad();
  if (sum.defined()) {
    sum.add_(gradient);
  } else {
    sum = gradient;
  }
}

}  // namespace lockstep
