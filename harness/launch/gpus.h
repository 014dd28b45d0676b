#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

/// The GPUs that a rank started here would see, or why it would see none.
struct Gpus {
  std::vector<std::string> names;  ///< one per GPU, in the driver's order
  std::string problem;             ///< why there is none: "there is no driver library"; else empty
  std::string remedy;              ///< what to do about it; else empty
};

/// Asks the CUDA driver, which honours CUDA_VISIBLE_DEVICES. The driver is loaded in a child
/// process only: ranks could not use CUDA after a fork otherwise, and a driver that crashes or does
/// not answer within `limit` is a problem told in words. Never throws for what the driver does.
Gpus find_gpus(std::chrono::milliseconds limit);

}  // namespace lockstep
