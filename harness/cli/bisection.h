#pragma once

#include <string>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/exit_status.h"

namespace CLI {
class App;
}

namespace lockstep {

/// Adds `--bisect`.
void add_bisect_option(CLI::App& app, bool& is_chosen);

/// Whether a command line has `--bisect`, even if it is wrong otherwise. `words`: without those of
/// another program.
bool has_bisect_option(const std::vector<std::string>& words);

/// The exit status for `git bisect run`: 0 (good) and 1 (bad) if the run decides, 125 (skip) if it
/// is undecided or compared nothing, and 255, which ends the bisection, after wrong arguments or a
/// defect. Interruptions also end it, by their own status.
int status_for_bisect(ExitStatus status);

/// The same of an error. What the machine lacks says nothing about a commit.
int status_for_bisect(Error::Kind kind);

}  // namespace lockstep
