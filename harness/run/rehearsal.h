#pragma once

#include <chrono>
#include <string>

#include "reports/record/cell.h"

namespace lockstep {

/// A backend that starts no ranks itself, and the kind of its tensors' devices.
struct RehearsedBackend {
  Backend backend = Backend::gloo;
  DeviceKind device = DeviceKind::cpu;
};

/// Lets two ranks connect, reduce one tensor and write their files, with the code of `run`. Uses a
/// temporary folder inside the current one. Returns the reason for a failure in one sentence; empty
/// on success.
std::string rehearse(std::chrono::milliseconds limit, const RehearsedBackend& backend = {});

}  // namespace lockstep
