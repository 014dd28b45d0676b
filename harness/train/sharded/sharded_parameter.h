#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/observe/named_tensor.h"

namespace lockstep {

/// How a parameter is cut.
///   rows      along its first dimension: a shard has fewer rows
///   elements  flattened: a shard is [elements], of any parameter
enum class Cut { rows, elements };

/// One parameter of a sharded model, cut like torch.chunk: shards have ceil(size / ranks) rows or
/// elements, except the last ones, which are shorter or empty.
///
/// The model's own tensor remains the object that modules compute with, and autograd's leaf. Its
/// storage is a buffer that exists between `allocate` and `release`. Without it the tensor has its
/// shape and no data, and reads fail with torch's errors. This rank's shard is another leaf, for
/// the optimizer; it always keeps its data. Does not communicate.
class ShardedParameter {
 public:
  /// Takes the data out of `parameter`, a leaf called `name`, and converts it to `compute_dtype` if
  /// given. Throws Error (internal) if it is not contiguous, or has no rows to cut.
  ShardedParameter(std::string name, at::Tensor parameter, int rank, int world_size,
                   std::optional<at::ScalarType> compute_dtype, Cut cut = Cut::rows);

  const std::string& name() const { return name_; }

  /// Leaf [rows of this rank, ...] or [elements of it]; requires a gradient if the parameter did.
  const at::Tensor& shard() const { return shard_; }
  /// Position of the shard in the whole, which is flattened if elements are cut.
  Shard place() const;

  /// The shard [elements of a padded one], with missing rows as zeros; shares its memory. Same size
  /// on all ranks.
  const at::Tensor& padded_shard() const { return padded_shard_; }
  std::int64_t padded_elements() const { return padded_shard_.numel(); }

  /// The model's tensor, [rows, ...].
  at::Tensor& unsharded() { return unsharded_; }
  /// Its memory and the padding after it, [ranks x padded elements]: the padded shards of all ranks
  /// in rank order.
  const at::Tensor& buffer() const { return buffer_; }
  void allocate();  ///< allocates uninitialised memory for the buffer, unless it has some
  void release();   ///< frees it, if there is any

  /// Adds to the shard's gradient, or sets it. `gradient`: same shape as the shard.
  void accumulate(const at::Tensor& gradient);

 private:
  std::string name_;
  at::Tensor unsharded_, buffer_, padded_shard_, shard_;
  std::vector<std::int64_t> shape_;  ///< in the form that is cut
  std::int64_t first_row_ = 0;
};

}  // namespace lockstep
