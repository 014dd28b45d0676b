#include "harness/cli/screen_options.h"

#include <CLI/CLI.hpp>
#include <cstdint>

#include "harness/cli/bytes_in_words.h"
#include "harness/cli/report_formats.h"
#include "harness/cli/stored_runs.h"
#include "reports/base/terminal.h"

namespace lockstep {

namespace {

/// A run of so many bytes is worth a word: a few of them fill a disk.
constexpr std::uint64_t kManyBytes = 256ULL << 20;

}  // namespace

void add_verbosity_options(CLI::App& app, VerbosityFlags& flags, const std::string& verbose) {
  CLI::Option* const quiet = app.add_flag("-q,--quiet", flags.quiet, "print only the verdict");
  app.add_flag("-v,--verbose", flags.verbose, verbose)->excludes(quiet);
}

Verbosity verbosity_of(const VerbosityFlags& flags) {
  if (flags.quiet > 0) return Verbosity::verdict;
  if (flags.verbose == 0) return Verbosity::overview;
  return flags.verbose == 1 ? Verbosity::variants : Verbosity::full;
}

Screen screen_of(int descriptor, Verbosity verbosity, const std::string& folder,
                 const std::vector<const Renderer*>& written) {
  const Terminal terminal = terminal_of(descriptor);
  Screen screen{verbosity, terminal.width, terminal.has_colour, terminal.has_utf8, folder};
  if (folder.empty() || verbosity == Verbosity::verdict) return screen;
  const std::uint64_t bytes = bytes_on_disk(folder);
  if (bytes >= kManyBytes) screen.size = bytes_in_words(bytes);
  screen.reports = report_files(written, folder);
  return screen;
}

}  // namespace lockstep
