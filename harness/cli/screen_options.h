#pragma once

#include <string>
#include <vector>

#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"

namespace CLI {
class App;
}

namespace lockstep {

/// The number of `-q` and `-v` options.
struct VerbosityFlags {
  int quiet = 0;
  int verbose = 0;
};

/// Adds `-q`, `-v` and `-vv`, which exclude each other. `verbose`: what `-v` and `-vv` print.
void add_verbosity_options(CLI::App& app, VerbosityFlags& flags, const std::string& verbose);

/// More than `-vv` counts as `-vv`.
Verbosity verbosity_of(const VerbosityFlags& flags);

/// The screen of `descriptor`, standard output or standard error. `folder`: of the run's files;
/// empty: not shown. `written`: the formats of which a file is written there.
Screen screen_of(int descriptor, Verbosity verbosity, const std::string& folder = "",
                 const std::vector<const Renderer*>& written = {});

}  // namespace lockstep
