#pragma once

#include <cstdint>
#include <span>

#include "harness/gpu/tensor_task.h"

namespace lockstep::gpu {

/// Runs the program of the kernel on the CPU, in this process's memory: the teams in the order of
/// `order`, a permutation of their numbers, and the threads of each one after the other.
void run_emulated(const Launch& launch, std::span<const std::uint32_t> order);

}  // namespace lockstep::gpu
