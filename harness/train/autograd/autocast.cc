#include "harness/train/autograd/autocast.h"

#include <ATen/autocast_mode.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include "reports/base/error.h"

namespace lockstep {

namespace {

AutocastState enabled_in(at::ScalarType dtype) {
  if (dtype != at::kBFloat16 && dtype != at::kHalf) {
    throw internal_error(
        fmt::format("autocast to {}: only to bfloat16 and float16", c10::toString(dtype)));
  }
  return {.is_enabled = true, .dtype = dtype, .caches = at::autocast::is_autocast_cache_enabled()};
}

void set(const AutocastState& state) {
  for (const at::DeviceType device : {at::kCPU, at::kPrivateUse1, at::kCUDA}) {
    at::autocast::set_autocast_enabled(device, state.is_enabled);
    at::autocast::set_autocast_dtype(device, state.dtype);
  }
  at::autocast::set_autocast_cache_enabled(state.caches);
}

}  // namespace

AutocastState autocast_state() {
  return {.is_enabled = at::autocast::is_autocast_enabled(at::kCPU),
          .dtype = at::autocast::get_autocast_dtype(at::kCPU),
          .caches = at::autocast::is_autocast_cache_enabled()};
}

AutocastScope::AutocastScope(at::ScalarType dtype) : AutocastScope(enabled_in(dtype)) {}

AutocastScope::AutocastScope(const AutocastState& state) : before_(autocast_state()) {
  set(state);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  set(before_);
}

}  // namespace lockstep
