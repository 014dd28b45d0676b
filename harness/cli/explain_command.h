#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep explain`: what a kind of finding means, its usual causes, and what helps.
Command explain_command();

}  // namespace lockstep
