#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep compare TABLE RUN`: holds a published table against the run in a folder, to the
/// printed digit. Ends as expected where every value is met, not applicable where there is none.
Command compare_command();

}  // namespace lockstep
