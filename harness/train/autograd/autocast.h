#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// Autocast settings of this thread, the same for the operators of every kind of device.
struct AutocastState {
  bool is_enabled = false;
  at::ScalarType dtype = at::kBFloat16;
  bool caches = true;  ///< whether a parameter is cast once per outermost scope

  bool operator==(const AutocastState&) const = default;
};

AutocastState autocast_state();

/// `with torch.autocast(device, dtype)` for every kind of device: while it exists, eligible
/// operators of this thread compute in `dtype`. The destructor restores the previous state; the end
/// of the outermost scope drops cached casts of parameters.
///
/// Thread rule: destroy on the same thread, in reverse order.
class AutocastScope {
 public:
  /// Throws Error (internal) unless `dtype` is bfloat16 or float16; torch warns and does nothing.
  explicit AutocastScope(at::ScalarType dtype);
  /// Applies a complete state, including one with autocast off.
  explicit AutocastScope(const AutocastState& state);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
};

}  // namespace lockstep
