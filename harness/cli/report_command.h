#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep report RUN...`: judges the run in each folder and shows it in `--format`. Returns the
/// worst of their exit statuses. Throws Error (usage) for several folders in a format of a single
/// document.
Command report_command();

}  // namespace lockstep
