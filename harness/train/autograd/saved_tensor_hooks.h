#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep {

/// Gets back what was packed, as often as backward passes ask for it: the same values, dtype, shape
/// and device. Dropped when autograd drops the saved tensor.
using Unpack = std::function<at::Tensor()>;

/// Called once for every tensor that autograd saves, without grad mode. The tensor may carry its
/// history: what is kept of it is to be detached, otherwise the graph keeps itself alive.
using Pack = std::function<Unpack(const at::Tensor& saved)>;

/// torch.autograd.graph.saved_tensors_hooks: while it lives, `pack` gets the tensors that autograd
/// saves on this thread, and no one else's. Of several the innermost, the one that began last, gets
/// all of them. A tensor stays with the scope in which it was saved, however long the scope has
/// ended when it is unpacked.
///
/// While `pack` or an `Unpack` runs there are no hooks, unless it begins a scope itself. What they
/// throw is passed on. As in torch, a tensor with hooks is not checked for changes in place between
/// saving and unpacking, and numbers that autograd wraps as tensors are not given to `pack`.
///
/// Thread rule: scopes belong to the thread that began them and end in reverse order. Backward on
/// the CPU runs on the thread that calls it, nested ones too, and sees its scopes; from the 60th
/// level of nesting on torch uses another thread, where, other than in torch, it sees none.
class SavedTensorHooks {
 public:
  /// The first one in a process replaces torch's autograd engine by one that asks for hooks: begin
  /// it while no backward runs on another thread.
  explicit SavedTensorHooks(Pack pack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 private:
  Pack pack_;
  const Pack* outer_;
};

/// While it lives there are no hooks on this thread, unless a scope begins inside.
class WithoutSavedTensorHooks {
 public:
  WithoutSavedTensorHooks();
  ~WithoutSavedTensorHooks();
  WithoutSavedTensorHooks(const WithoutSavedTensorHooks&) = delete;
  WithoutSavedTensorHooks& operator=(const WithoutSavedTensorHooks&) = delete;

 private:
  const Pack* outer_;
};

}  // namespace lockstep
