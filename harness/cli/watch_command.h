#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep watch`: any training job, observed and judged.
Command watch_command();

}  // namespace lockstep
