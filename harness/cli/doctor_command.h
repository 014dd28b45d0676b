#pragma once

#include <chrono>

namespace lockstep {

/// `lockstep doctor`: says what this machine and this build have, what is missing, how to get it,
/// and whether `lockstep run` can work here, which it tries. Returns 0 when it can, 1 when not.
/// `limit`: how long each launcher and the driver may take to answer.
int doctor_command(std::chrono::milliseconds limit);

}  // namespace lockstep
