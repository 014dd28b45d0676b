#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// How operators on the CPU choose their dtype on this thread.
struct AutocastState {
  bool is_enabled = false;
  at::ScalarType dtype = at::kBFloat16;
  bool caches = true;  ///< whether a parameter is cast once per outermost scope

  bool operator==(const AutocastState&) const = default;
};

AutocastState autocast_state();

/// `with torch.autocast("cpu", dtype)`: while it lives, operators of this thread that gain from it
/// compute in `dtype`. At the end the state before is back; the end of the outermost scope drops
/// the parameters that were cast.
///
/// Thread rule: ends on the thread that began it, in reverse order.
class AutocastScope {
 public:
  /// Throws Error (internal) unless `dtype` is bfloat16 or float16; torch warns and does nothing.
  explicit AutocastScope(at::ScalarType dtype);
  /// All of a state, one in which autocast is off too.
  explicit AutocastScope(const AutocastState& state);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
};

}  // namespace lockstep
