#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep pack`: a run in one file, to attach to an issue.
Command pack_command();

}  // namespace lockstep
