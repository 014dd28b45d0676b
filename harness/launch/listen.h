#pragma once

#include <string>

#include "harness/launch/launch.h"
#include "reports/base/unique_fd.h"

namespace lockstep {

inline constexpr const char* kLoopback = "127.0.0.1";
inline constexpr const char* kEveryAddress = "0.0.0.0";

/// A socket that listens on `port` (0: a free one) of an IPv4 address of this machine. `bound`
/// receives the port. Throws Error (usage).
UniqueFd listen_on(const std::string& address, int port, int& bound);

}  // namespace lockstep
