#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep validate`: proves a fix by running both states of the code.
Command validate_command();

}  // namespace lockstep
