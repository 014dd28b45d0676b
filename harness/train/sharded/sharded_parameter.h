#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/observe/named_tensor.h"

namespace lockstep {

/// Along what a parameter is cut.
///   rows      its first dimension: a shard is a part of it of fewer rows
///   elements  flattened: a shard is [elements], of any parameter
enum class Cut { rows, elements };

/// One parameter of a model that is sharded in the pieces of torch.chunk: all of ceil(size / ranks)
/// rows, or elements, but the last ones, which are shorter or empty.
///
/// The model's own tensor stays the object that modules compute with, and autograd's leaf. Its
/// storage is a buffer that is there between `allocate` and `release`; without it the tensor has
/// its shape and no data, and what reads it fails as torch has it fail. This rank's shard is
/// another leaf, the one that an optimizer steps; it keeps its data throughout. Does not
/// communicate.
class ShardedParameter {
 public:
  /// Takes the data out of `parameter`, a leaf called `name`, whose dtype becomes `compute_dtype`
  /// where that is given. Throws Error (internal) for one that is not contiguous, and for one that
  /// has no rows where these are cut.
  ShardedParameter(std::string name, at::Tensor parameter, int rank, int world_size,
                   std::optional<at::ScalarType> compute_dtype, Cut cut = Cut::rows);

  const std::string& name() const { return name_; }

  /// Leaf [rows of this rank, ...] or [elements of it]; requires a gradient where the parameter
  /// did.
  const at::Tensor& shard() const { return shard_; }
  /// Where the shard lies in the whole, which is flattened where elements are cut.
  Shard place() const;

  /// The shard [elements of a padded one], rows that are missing as zeros: shares its memory. Of
  /// the same size on all ranks.
  const at::Tensor& padded_shard() const { return padded_shard_; }
  std::int64_t padded_elements() const { return padded_shard_.numel(); }

  /// What the model computes with, [rows, ...].
  at::Tensor& unsharded() { return unsharded_; }
  /// Its memory and the padding behind it, [ranks x padded elements]: the padded shards of all
  /// ranks in their order.
  const at::Tensor& buffer() const { return buffer_; }
  void allocate();  ///< gives the buffer memory, of any content; nothing where it has some
  void release();   ///< takes it away; nothing where it has none

  /// Adds to the shard's gradient, or becomes it. `gradient`: as the shard.
  void accumulate(const at::Tensor& gradient);

 private:
  std::string name_;
  at::Tensor unsharded_, buffer_, padded_shard_, shard_;
  std::vector<std::int64_t> shape_;  ///< as it is cut
  std::int64_t first_row_ = 0;
};

}  // namespace lockstep
