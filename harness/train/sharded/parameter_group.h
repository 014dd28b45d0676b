#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/sharded/sharded_parameter.h"

namespace lockstep {

/// Where training is with a part of a sharded model.
enum class TrainingState { idle, forward, pre_backward, post_backward };

/// How a group of sharded parameters is treated.
struct ParameterGroupOptions {
  /// In which gradients are reduced; absent: that of the unsharded parameters.
  std::optional<at::ScalarType> reduce_dtype = {};
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  /// Whether backward reduces gradients; else they accumulate on this rank, whole.
  bool reduces_gradients = true;
};

/// Sharded parameters that are gathered and reduced together, each time by one collective. All
/// ranks call the same, in the same order.
///
/// An all-gather is of the padded shards, one behind the other, in the order of the parameters; a
/// reduce-scatter of the padded gradients of those parameters that have one, first all parts for
/// rank 0, then those for rank 1. A single rank calls no collective.
class ParameterGroup {
 public:
  /// `name`: of the module whose parameters these are, for the collective log; empty: of the root.
  /// `parameters`: at least one. Throws Error (internal) when they differ in dtype.
  ParameterGroup(const std::string& name, std::vector<ShardedParameter> parameters,
                 ProcessGroup& group, const ParameterGroupOptions& options);

  ParameterGroupOptions& options() { return options_; }
  std::vector<ShardedParameter>& parameters() { return parameters_; }

  /// Gathers the parameters. Nothing where they are there, or gathered already.
  void unshard();
  /// Gives the model what `unshard` gathered; nothing where it did not.
  void finish_unshard();
  /// Releases the unsharded parameters, except in forward where the options say so.
  void reshard();
  /// Reduces the gradients that backward left in the unsharded parameters, after resharding these.
  /// Calls no collective where there is none.
  void post_backward();
  /// Drops what was gathered and not used.
  void drop_gathered() { gathered_ = at::Tensor(); }

  TrainingState state = TrainingState::idle;
  /// Where it stands in the order in which groups ended their forwards, once for each.
  std::vector<std::size_t> post_forward_places;

 private:
  struct Gradients {
    std::vector<ShardedParameter*> parameters;
    std::vector<at::Tensor> whole;  ///< of each, [rows, ...]
  };
  Gradients take_gradients();
  void keep_gradients();
  void reduce(const Gradients& gradients);
  at::Tensor reduce_scatter(at::Tensor& input);

  std::string of_name_;
  std::vector<ShardedParameter> parameters_;
  ProcessGroup& group_;
  ParameterGroupOptions options_;
  /// Per parameter, in the reduce dtype: what backwards that did not reduce left. Undefined:
  /// nothing.
  std::vector<at::Tensor> kept_gradients_;
  at::Tensor gathered_;  ///< [ranks, padded elements of all]; undefined: no all-gather is ahead
  bool is_unsharded_ = false;
};

}  // namespace lockstep
