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

/// Training phase of a part of a sharded model.
enum class TrainingState { idle, forward, pre_backward, post_backward };

/// Treatment of a group of sharded parameters.
struct ParameterGroupOptions {
  /// Dtype of the gradient reduction; absent: that of the unsharded parameters.
  std::optional<at::ScalarType> reduce_dtype = {};
  bool reshard_after_forward = true;
  bool reshard_after_backward = true;
  /// Whether backward reduces gradients; otherwise they accumulate on this rank, whole.
  bool reduces_gradients = true;
};

/// Sharded parameters that are gathered and reduced together, each time by one collective. All
/// ranks make the same calls in the same order.
///
/// An all-gather sends the concatenated padded shards, in the order of the parameters. A
/// reduce-scatter sends the padded gradients of the parameters that have one. All parts for rank 0
/// come first, then those for rank 1, and so on. A single rank calls no collective.
class ParameterGroup {
 public:
  /// `name`: the module that owns the parameters, for the collective log; empty: the root.
  /// `parameters`: at least one. Throws Error (internal) when they differ in dtype.
  ParameterGroup(const std::string& name, std::vector<ShardedParameter> parameters,
                 ProcessGroup& group, const ParameterGroupOptions& options);

  ParameterGroupOptions& options() { return options_; }
  std::vector<ShardedParameter>& parameters() { return parameters_; }

  /// Gathers the parameters. Does nothing if they are unsharded or already gathered.
  void unshard();
  /// Gives the gathered parameters to the model; does nothing if there are none.
  void finish_unshard();
  /// Releases the unsharded parameters; in forward, only if the options say so.
  void reshard();
  /// Reshards the parameters, then reduces the gradients that backward left in them. Calls no
  /// collective if there are none.
  void post_backward();
  /// Drops gathered parameters that were not used.
  void drop_gathered() { gathered_ = at::Tensor(); }

  TrainingState state = TrainingState::idle;
  /// Its positions in the order in which forwards ended, one for each forward.
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
  /// Per parameter, in the reduce dtype: gradients of non-reducing backwards. Undefined: none.
  std::vector<at::Tensor> kept_gradients_;
  at::Tensor gathered_;  ///< [ranks, padded elements of all]; undefined: no all-gather is pending
  bool is_unsharded_ = false;
};

}  // namespace lockstep
