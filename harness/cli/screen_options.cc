#include "harness/cli/screen_options.h"

#include <CLI/CLI.hpp>

#include "reports/base/terminal.h"

namespace lockstep {

void add_verbosity_options(CLI::App& app, VerbosityFlags& flags, const std::string& verbose) {
  CLI::Option* const quiet = app.add_flag("-q,--quiet", flags.quiet, "print only the verdict");
  app.add_flag("-v,--verbose", flags.verbose, verbose)->excludes(quiet);
}

Verbosity verbosity_of(const VerbosityFlags& flags) {
  if (flags.quiet > 0) return Verbosity::verdict;
  if (flags.verbose == 0) return Verbosity::overview;
  return flags.verbose == 1 ? Verbosity::variants : Verbosity::full;
}

Screen screen_of(int descriptor, Verbosity verbosity, const std::string& folder) {
  const Terminal terminal = terminal_of(descriptor);
  return {verbosity, terminal.width, terminal.has_colour, terminal.has_utf8, folder};
}

}  // namespace lockstep
