#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// The parameters of a module as one: flattened, one behind the other, padded to a multiple of the
/// ranks and cut in equal pieces, of which this rank keeps one. A piece may cut a parameter. Or it
/// is whole on every rank.
///
/// The flat parameter is a leaf, the only one of these parameters that autograd knows. The model's
/// own tensors stay the objects that modules compute with, and become views of it: they share its
/// memory, and a gradient of theirs flows through the split that made them into the one of the
/// leaf, also that of a parameter that got none, as zeros. Between `unshard` and a `reshard` that
/// releases, the memory is there; without it they have their shapes and no data. Optimizers step
/// leaves of their own, views of this rank's piece.
///
/// All ranks call the same, in the same order.
class FlatParameter {
 public:
  /// Takes the data out of `parameters`, leaves of the module called `of_module` (empty: the root),
  /// at least one. Throws Error (internal) where they cannot be one: of several dtypes or devices,
  /// of integers, without dimensions, some of them frozen.
  FlatParameter(const std::string& of_module, std::vector<NamedTensor> parameters,
                ProcessGroup& group, bool keeps_whole);

  bool requires_grad() const { return leaf_.requires_grad(); }
  /// [elements of all parameters, without padding]
  const at::Tensor& leaf() const { return leaf_; }

  /// This rank's pieces, leaves [elements] of a global shape [elements of the parameter], in the
  /// order of the parameters; empty where this rank has none of it. Where all is whole they have
  /// the parameters' shapes.
  const std::vector<NamedShard>& pieces() const { return pieces_; }

  /// Has the memory gathered by one collective, unless it is there.
  void unshard();
  /// Whether it was unsharded after it was resharded the last time.
  bool is_in_use() const { return is_in_use_; }
  void reshard(bool releases);
  /// Makes the model's tensors views of the leaf anew, in a graph of their own. Unsharded only.
  void make_views();

  /// Before gradients of this backward come: those that the pieces have, of a backward before, are
  /// set aside, and the reduced ones will be added to them. Gradients that are not reduced yet stay
  /// in the leaf.
  void set_gradients_aside();
  /// Whether backward has left a gradient in the leaf.
  bool has_gradient() const { return leaf_.grad().defined(); }
  /// Averages the leaf's gradient over the ranks, by one collective.
  void reduce_gradient();
  /// Gives the pieces the sum of what was reduced and what was set aside. Not `is_reduced`: nothing
  /// was, in this backward, and what was set aside is dropped.
  void hand_over_gradients(bool is_reduced);
  /// Where gradients are whole on every rank, the pieces show them also where nothing was reduced.
  void show_whole_gradients();
  /// Drops the gradients of pieces and leaf, but not those set aside.
  void zero_grad();

 private:
  /// Where a piece lies in what this rank keeps.
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
  at::Tensor buffer_;  ///< the leaf's memory and the padding behind it
  at::Tensor local_;   ///< what this rank keeps
  std::vector<NamedShard> pieces_;
  std::vector<Range> ranges_;  ///< of the pieces
  at::Tensor set_aside_;       ///< as `local_`; undefined: nothing
  at::Tensor given_;           ///< of which the pieces' gradients are views
  bool is_gathered_ = true;
  bool is_in_use_ = true;
};

}  // namespace lockstep
