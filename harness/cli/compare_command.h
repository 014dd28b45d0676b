#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep compare TABLE RUN`: compares a published table with the run in a folder, to the
/// printed digit. The result is `as expected` if every value agrees, not applicable if there is
/// none.
Command compare_command();

}  // namespace lockstep
