#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep runs`: lists the runs in a folder, and removes old ones.
Command runs_command();

}  // namespace lockstep
