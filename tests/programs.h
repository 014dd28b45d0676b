#pragma once

#include <string>

namespace lockstep {

/// The programs that tests start like a user.
inline const std::string kLockstep = LOCKSTEP_PROGRAM;
inline const std::string kTestbed = LOCKSTEP_TESTBED;

}  // namespace lockstep
