#pragma once

#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace lockstep::sim {

/// Runs any operator on virtual devices. It checks that all tensors are on one device, runs the CPU
/// kernel on their memory, and charges the results.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lockstep::sim
