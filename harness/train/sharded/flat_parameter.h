#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// The parameters of a module as one: flattened, concatenated and padded to a multiple of the
/// ranks. They are cut into equal pieces, of which this rank keeps one. A piece may cut a
/// parameter. Alternatively it is whole on every rank.
///
/// The flat parameter is a leaf, the only one of these parameters that autograd knows. The model's
/// own tensors remain the objects that modules compute with, and become views of it. They share its
/// memory, and their gradients flow through the split into that of the leaf. A parameter without a
/// gradient contributes zeros. The memory exists between `unshard` and a releasing `reshard`;
/// without it the tensors have their shapes and no data. Optimizers step separate leaves, views of
/// this rank's piece.
///
/// All ranks make the same calls in the same order.
class FlatParameter {
 public:
  /// Takes the data out of `parameters`, leaves of the module `of_module` (empty: the root), at
  /// least one. Throws Error (internal) if they cannot form one tensor: several dtypes or devices,
  /// integers, no dimensions, some of them frozen.
  FlatParameter(const std::string& of_module, std::vector<NamedTensor> parameters,
                ProcessGroup& group, bool keeps_whole);

  bool requires_grad() const { return leaf_.requires_grad(); }
  /// [elements of all parameters, without padding]
  const at::Tensor& leaf() const { return leaf_; }

  /// This rank's pieces: leaves [elements] of a global shape [elements of the parameter], in the
  /// order of the parameters. A piece is empty if this rank has no part of the parameter. If
  /// everything is whole, they have the parameters' shapes.
  const std::vector<NamedShard>& pieces() const { return pieces_; }

  /// Gathers the memory with one collective, unless it is present.
  void unshard();
  /// Whether it was unsharded after the last reshard.
  bool is_in_use() const { return is_in_use_; }
  void reshard(bool releases);
  /// Makes the model's tensors new views of the leaf, in a new graph. Only while unsharded.
  void make_views();

  /// Call before the gradients of this backward arrive. Sets aside the pieces' gradients of an
  /// earlier backward, to which the reduced ones will be added. Gradients not reduced yet stay in
  /// the leaf.
  void set_gradients_aside();
  /// Whether backward has left a gradient in the leaf.
  bool has_gradient() const { return leaf_.grad().defined(); }
  /// Averages the leaf's gradient over the ranks, with one collective.
  void reduce_gradient();
  /// Gives the pieces the sum of the reduced and the set-aside gradients. Not `is_reduced`: this
  /// backward reduced nothing, and the set-aside gradients are dropped.
  void hand_over_gradients(bool is_reduced);
  /// If gradients are whole on every rank, shows them in the pieces even without a reduction.
  void show_whole_gradients();
  /// Drops the gradients of pieces and leaf, but not those set aside.
  void zero_grad();

 private:
  /// Position of a piece in this rank's part.
  struct Range {
    std::int64_t first = 0;
    std::int64_t elements = 0;
  };
  void flatten();
  void cut();
  at::Tensor take_piece_gradients();
  void give_pieces(const at::Tensor& gradient);
  at::Tensor reduce_scatter(at::Tensor gradient);

  std::string of_name_;
  std::vector<NamedTensor> parameters_;
  std::vector<std::vector<std::int64_t>> shapes_;
  ProcessGroup& group_;
  bool keeps_whole_;
  at::Tensor leaf_;
  at::Tensor buffer_;  ///< the leaf's memory and the padding after it
  at::Tensor local_;   ///< this rank's part
  std::vector<NamedShard> pieces_;
  std::vector<Range> ranges_;  ///< of the pieces
  at::Tensor set_aside_;       ///< same layout as `local_`; undefined: none
  at::Tensor given_;           ///< the pieces' gradients are views of it
  bool is_gathered_ = true;
  bool is_in_use_ = true;
};

}  // namespace lockstep
