#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `doctor` of a catalogue program. It also reports torch and the backends, and starts two ranks
/// that reduce a tensor.
Command doctor_with_ranks();

}  // namespace lockstep
