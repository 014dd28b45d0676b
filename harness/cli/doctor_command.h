#pragma once

#include <chrono>

#include "reports/base/exit_status.h"

namespace lockstep {

/// `lockstep doctor`: says what this machine and this build have, what is missing, how to get it,
/// and whether `lockstep run` can work here, which it tries. Returns `as_expected` when it can,
/// else `failed`. `limit`: how long each launcher and the driver may take to answer.
ExitStatus doctor_command(std::chrono::milliseconds limit);

}  // namespace lockstep
