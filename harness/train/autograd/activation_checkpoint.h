#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

/// A segment of a model: from defined tensors to tensors. Run again with the same inputs, the same
/// random numbers and the same parameters it must do the same. It is kept until its graph is gone.
using Segment = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
using SegmentOfOne = std::function<at::Tensor(const at::Tensor& input)>;

struct CheckpointOptions {
  /// From which the segment draws random numbers. (torch restores its global generators.)
  std::vector<at::Generator> generators = {};
  /// Whether the segment is recomputed with the numbers that it drew in forward, and the generators
  /// go on afterwards as if it had drawn none (torch's `preserve_rng_state`).
  bool restore_random = true;
  /// Whether it is recomputed under the autocast of forward. torch always does.
  bool restore_autocast = true;
  /// Whether recomputing ends with the last tensor that is needed. Of `checkpoint` only.
  bool early_stop = true;
};

/// torch.utils.checkpoint.checkpoint(use_reentrant=True): runs the segment without recording it and
/// saves its inputs. Backward runs it again on detached inputs and calls a backward of its own on
/// the result, so that parameters get their gradients, and DDP's hooks fire, inside of the outer
/// backward and once per segment that uses them.
///
/// As in torch: where no input requires a gradient nothing is recorded and the parameters get none,
/// which torch warns of and this does not; the inputs are saved like those of any function, so
/// scopes of `SavedTensorHooks` around it get them, and only them; the nested backward also
/// follows, and frees, the graph of a tensor that the segment uses and that is no input; retaining
/// the graph allows a second backward, which recomputes again.
///
/// The function returns what the segment returned, with a history. Backward throws Error (internal)
/// when it was asked for chosen gradients (`torch::autograd::grad`, or `inputs`) and when no output
/// of the recomputed segment requires a gradient.
std::vector<at::Tensor> checkpoint_reentrant(const Segment& segment,
                                             const std::vector<at::Tensor>& inputs,
                                             const CheckpointOptions& options = {});
at::Tensor checkpoint_reentrant(const SegmentOfOne& segment, const at::Tensor& input,
                                const CheckpointOptions& options = {});

/// torch.utils.checkpoint.checkpoint(use_reentrant=False): records the segment, but keeps only a
/// place for each tensor that autograd saves in it. The first place that a backward needs
/// recomputes the segment and fills all of them; each is emptied as it is used. The graph is an
/// ordinary one: every parameter's hooks fire once, and inputs need not require a gradient.
///
/// As in torch: the inputs are saved like those of a function that precedes the segment, so a scope
/// around it gets them, and an enclosing checkpoint recomputes them; every backward through a
/// retained graph recomputes anew; backward inside of the segment works; without grad mode the
/// segment is just run. Not here: groups of backward passes that share a recomputation, selective
/// checkpoints, functions from names to tensors.
///
/// Backward throws Error (internal) when the recomputed segment saves another number of tensors
/// than forward did (with `early_stop`: fewer), or tensors of another shape, dtype or device. What
/// the segment throws is passed on. Generators, autocast and hooks are then as before.
///
/// Thread rule: one backward at a time through one graph.
std::vector<at::Tensor> checkpoint(const Segment& segment, const std::vector<at::Tensor>& inputs,
                                   const CheckpointOptions& options = {});
at::Tensor checkpoint(const SegmentOfOne& segment, const at::Tensor& input,
                      const CheckpointOptions& options = {});

}  // namespace lockstep
