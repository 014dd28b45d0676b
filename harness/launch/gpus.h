#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

/// The GPUs visible to a rank started here, or why there are none.
struct Gpus {
  std::vector<std::string> names;  ///< one per GPU, in the driver's order
  std::string problem;             ///< why there is none: "there is no driver library"; else empty
  std::string remedy;              ///< how to solve it; else empty
};

/// Asks the CUDA driver, which honours CUDA_VISIBLE_DEVICES. The driver is loaded only in a child
/// process, because ranks could not use CUDA after a fork otherwise. A driver that crashes or
/// exceeds `limit` is described in `problem`. Never throws for faults of the driver.
Gpus find_gpus(std::chrono::milliseconds limit);

}  // namespace lockstep
