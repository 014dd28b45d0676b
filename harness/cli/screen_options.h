#pragma once

#include <string>

#include "reports/formats/screen.h"

namespace CLI {
class App;
}

namespace lockstep {

/// How often `-q` and `-v` were given.
struct VerbosityFlags {
  int quiet = 0;
  int verbose = 0;
};

/// Adds `-q`, `-v` and `-vv`, which exclude each other.
void add_verbosity_options(CLI::App& app, VerbosityFlags& flags);

/// More than `-vv` is `-vv`.
Verbosity verbosity_of(const VerbosityFlags& flags);

/// What `descriptor`, standard output or standard error, shows of a report. `folder`: of the run's
/// files; empty: not told.
Screen screen_of(int descriptor, Verbosity verbosity, const std::string& folder = "");

}  // namespace lockstep
