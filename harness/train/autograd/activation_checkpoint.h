#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

/// A segment of a model: from defined tensors to tensors. With equal inputs, random numbers and
/// parameters it must compute the same again. It is kept until its graph is gone.
using Segment = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
using SegmentOfOne = std::function<at::Tensor(const at::Tensor& input)>;

struct CheckpointOptions {
  /// Generators that the segment draws from. (torch restores its global generators.)
  std::vector<at::Generator> generators = {};
  /// Whether recomputation uses the random numbers of forward and leaves the generators unchanged
  /// (torch's `preserve_rng_state`).
  bool restore_random = true;
  /// Whether recomputation runs under the autocast state of forward. torch always does.
  bool restore_autocast = true;
  /// Whether recomputation stops after the last required tensor. Only for `checkpoint`.
  bool early_stop = true;
};

/// torch.utils.checkpoint.checkpoint(use_reentrant=True): runs the segment without recording it and
/// saves its inputs. Backward runs it again on detached inputs and calls a nested backward on the
/// result. So parameters get their gradients, and DDP's hooks fire, inside the outer backward and
/// once per segment that uses them.
///
/// If no input requires a gradient, the segment is not recorded and the parameters get no gradient,
/// as in torch. Torch warns about that; this does not. The inputs are saved like those of any
/// function, so surrounding scopes of `SavedTensorHooks` receive them, and only them. If the
/// segment uses a tensor that is not an input, the nested backward also follows and frees that
/// tensor's graph. A retained graph allows a second backward, which recomputes again.
///
/// Returns the segment's result, with a history. Backward throws Error (internal) when chosen
/// gradients are requested (`torch::autograd::grad`, or `inputs`), and when no output of the
/// recomputed segment requires a gradient.
std::vector<at::Tensor> checkpoint_reentrant(const Segment& segment,
                                             const std::vector<at::Tensor>& inputs,
                                             const CheckpointOptions& options = {});
at::Tensor checkpoint_reentrant(const SegmentOfOne& segment, const at::Tensor& input,
                                const CheckpointOptions& options = {});

/// torch.utils.checkpoint.checkpoint(use_reentrant=False): records the segment, but stores only a
/// placeholder for each tensor that autograd saves in it. The first placeholder needed in backward
/// recomputes the segment and fills all of them; each is emptied when it is used. The graph is an
/// ordinary one: every parameter's hooks fire once, and inputs need not require a gradient.
///
/// As in torch: the inputs are saved like those of a function that precedes the segment. So a
/// surrounding scope receives them, and an enclosing checkpoint recomputes them. Every backward
/// through a retained graph recomputes. Backward inside the segment works. Without grad mode the
/// segment is simply run. Not supported: groups of backward passes that share a recomputation,
/// selective checkpoints, functions from names to tensors.
///
/// Backward throws Error (internal) when the recomputed segment saves another number of tensors
/// than forward (with `early_stop`: fewer), or tensors of another shape, dtype or device.
/// Exceptions of the segment are passed on. Generators, autocast and hooks are restored in all
/// cases.
///
/// Thread rule: one backward at a time through one graph.
std::vector<at::Tensor> checkpoint(const Segment& segment, const std::vector<at::Tensor>& inputs,
                                   const CheckpointOptions& options = {});
at::Tensor checkpoint(const SegmentOfOne& segment, const at::Tensor& input,
                      const CheckpointOptions& options = {});

}  // namespace lockstep
