#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep diff`: two watched jobs compared, whatever their layout.
Command diff_command();

}  // namespace lockstep
