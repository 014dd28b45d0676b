#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace lockstep {

/// What behind the name of this program runs the cell alone, by its own ranks: "run",
/// "scenario/variant", "--ranks", "2", ...
std::vector<std::string> arguments_of(const PlannedCell& planned);

/// "lockstep run scenario/variant --ranks 2 ...": the command that runs the cell alone, by this
/// program as it was called, without its folder: a report is pasted into pull requests. `launcher`:
/// what `--launcher` was given; empty: nothing.
std::string reproducing_command(const PlannedCell& planned, const std::string& launcher = {});

}  // namespace lockstep
