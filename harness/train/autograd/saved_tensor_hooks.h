#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep {

/// Returns the packed tensor as often as backward passes ask for it: same values, dtype, shape and
/// device. Dropped when autograd drops the saved tensor.
using Unpack = std::function<at::Tensor()>;

/// Called once for every tensor that autograd saves, without grad mode. The tensor may carry its
/// history. Detach it before storing it, otherwise the graph keeps itself alive.
using Pack = std::function<Unpack(const at::Tensor& saved)>;

/// torch.autograd.graph.saved_tensors_hooks: while it exists, `pack` receives the tensors that
/// autograd saves on this thread only. Of several scopes the innermost, which began last, receives
/// all. A tensor belongs to the scope that saved it, even if it is unpacked long after that scope's
/// end.
///
/// While `pack` or an `Unpack` runs there are no hooks, unless it begins a scope itself. Their
/// exceptions are passed on. As in torch, a tensor with hooks is not checked for in-place changes
/// between saving and unpacking. `pack` does not receive numbers that autograd wraps as tensors, as
/// in torch.
///
/// Thread rule: scopes belong to the thread that began them and end in reverse order. Backward on
/// the CPU, including nested ones, runs on the calling thread and sees its scopes. From the 60th
/// level of nesting on torch uses another thread; unlike in torch, that thread sees none.
class SavedTensorHooks {
 public:
  /// The first one in a process replaces torch's autograd engine by one that asks for hooks. Begin
  /// it while no backward runs on another thread.
  explicit SavedTensorHooks(Pack pack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 private:
  Pack pack_;
  const Pack* outer_;
};

/// While it exists, this thread has no hooks, unless a scope begins inside.
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
