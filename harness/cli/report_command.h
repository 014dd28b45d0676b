#pragma once

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep report RUN...`: judges what the run in each folder left and shows it in `--format`.
/// Ends with the worst of their exit statuses. Throws Error (usage) for several folders in a format
/// that is one document.
Command report_command();

}  // namespace lockstep
