#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep {

/// Null if `work` has none, as for Gloo's point-to-point calls and reduce-scatters.
inline c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work) {
  try {
    return work.getFuture();
  } catch (const c10::Error&) {
    return {};
  }
}

}  // namespace lockstep
