#include "harness/cli/report_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/cli/bisection.h"
#include "harness/cli/github_step.h"
#include "harness/cli/named_runs.h"
#include "harness/cli/reading_progress.h"
#include "harness/cli/report_formats.h"
#include "harness/cli/screen_options.h"
#include "harness/cli/standard_output.h"
#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "harness/record/run_folder.h"
#include "harness/record/watch_control.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"
#include "reports/formats/renderer.h"
#include "reports/record/joined_record.h"
#include "reports/record/known_findings.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_of_journal(const fs::path& journal) {
  std::uint64_t bytes = 0;
  const int segments = count_segments(journal);
  for (int number = 1; number <= segments; ++number) {
    std::error_code missing;
    const auto size = fs::file_size(segment_file(journal, number), missing);
    if (!missing) bytes += size;
  }
  return bytes;
}

/// Of the journals of some ranks. Each is read three times: as a file of the manifest, if there is
/// one, its index or its rows, then the steps.
std::uint64_t bytes_of_ranks(const fs::path& files, const std::vector<int>& ranks, bool is_listed) {
  std::uint64_t bytes = 0;
  for (const int rank : ranks) bytes += bytes_of_journal(journal_file(files, rank));
  return (is_listed ? 3 : 2) * bytes;
}

std::uint64_t bytes_of_execution(const fs::path& folder, const Execution& execution) {
  std::vector<int> ranks(static_cast<std::size_t>(execution.processes));
  std::iota(ranks.begin(), ranks.end(), 0);
  return bytes_of_ranks(folder / execution.folder, ranks, execution.manifest.has_value());
}

/// Of all journals.
std::uint64_t bytes_to_read(const RunRecord& run, const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const CellRecord& cell : run.cells) bytes += bytes_of_execution(folder, cell);
  for (const JobRecord& job : run.jobs) {
    if (job.parts.empty()) bytes += bytes_of_execution(folder, job);
    for (const JobPart& part : job.parts) {
      bytes += bytes_of_ranks(folder / part.folder, part.ranks, part.manifest.has_value());
    }
  }
  return bytes;
}

/// A job that still runs, and that nobody else follows, stores values from now on if its ranks
/// differ.
void ask_to_keep(const JoinedRun& joined) {
  for (const JobRecord& job : joined.run.jobs) {
    const bool differs = !job.unsealed.empty() && first_difference(job);
    if (!differs) continue;
    if (job.parts.empty()) WatchControl(joined.root() / job.folder).ask_to_keep();
    for (const JobPart& part : job.parts) WatchControl(part.folder).ask_to_keep();
  }
}

void judge(JoinedRun& joined, IndexUse use, bool fills_charts) {
  ReadingProgress progress(bytes_to_read(joined.run, joined.root()));
  judge_run(joined.run, joined.root(),
            {.index = use, .fills_charts = fills_charts, .meter = [&](std::uint64_t bytes) {
               progress.add(bytes);
             }});
  ask_to_keep(joined);
}

/// Runs one after the other, below their names. `files`: of their reports, named with the last one.
void show_on_screen(const NamedRuns& named, const JoinedRun& joined, Verbosity verbosity,
                    const std::vector<std::string>& files,
                    const std::optional<KnownFindings>& known) {
  const std::string shown = named.shown(joined);
  if (named.runs().size() > 1) {
    write_standard_output(fmt::format("{}{}\n\n", &joined == &named.runs()[0] ? "" : "\n", shown));
  }
  Screen screen = screen_of(STDOUT_FILENO, verbosity, shown);
  if (&joined == &named.runs().back()) screen.reports = files;
  write_standard_output(render_screen(joined.run, screen) + known_in_words(joined.run, known));
}

/// Files have one report for all runs.
RunRecord record_of_all(NamedRuns& named) {
  std::vector<RunToJoin> runs;
  for (JoinedRun& joined : named.runs()) {
    const std::string shown = named.shown(joined);
    runs.push_back({shown, joined.folders.size() == 1 ? shown : "", std::move(joined.run)});
  }
  return join_records(std::move(runs));
}

/// In `formats`, or on the screen if there are none or `out` takes their files.
ExitStatus report(const std::vector<std::string>& folders,
                  const std::vector<const Renderer*>& formats, const std::string& out,
                  Verbosity verbosity, IndexUse use, const std::optional<KnownFindings>& known) {
  if (!out.empty() && formats.empty()) {
    throw bad_value("--out", out, "one with --format, which says what is written there");
  }
  if (!out.empty()) make_folders(out);
  const auto written = out.empty() ? std::vector<std::string>() : report_files(formats, out);
  NamedRuns named(folders);
  ExitStatus status = ExitStatus::as_expected;
  for (JoinedRun& joined : named.runs()) {
    if (named.has_files(joined)) judge(joined, use, has_charts(formats));
    if (is_for_screen(formats, out)) {
      show_on_screen(named, joined, verbosity, written, known);
    }
    status = worse(status, exit_status(without_known(joined.run, known)));
  }
  if (!is_for_screen(formats, out)) print_in_format(*formats[0], record_of_all(named), known);
  if (out.empty()) return status;
  const auto unwritten = write_reports(formats, record_of_all(named), out, known, stdout);
  if (unwritten) throw Error(*unwritten);
  return status;
}

struct ReportWords {
  std::vector<std::string> folders;
  std::vector<std::string> formats;
  std::string out;
  std::string known;
  bool is_full = false;
  bool is_bisection = false;
  VerbosityFlags verbosity;
};

void add_report_options(CLI::App& app, ReportWords& words) {
  app.add_option(
         "RUN", words.folders,
         "folder of the run, or a pack of it; several: those of one job's machines together, "
         "others one after the other, and in a file's format as one report")
      ->required()
      ->type_name("");
  app.add_option("-o,--out", words.out, "write the formats into this folder, besides the screen")
      ->type_name("DIR");
  add_formats_to_print(app, words.formats);
  app.add_option("--known", words.known, "findings listed in this file do not fail")
      ->type_name("FILE");
  app.add_flag(
      "--full", words.is_full,
      "read every row, even of steps in which the index of the journals shows that ranks agree");
  add_bisect_option(app, words.is_bisection);
  add_verbosity_options(app, words.verbosity,
                        "print a line per variant with its symptom; -vv: every finding, table and "
                        "cost");
}

}  // namespace

Command report_command() {
  auto words = std::make_shared<ReportWords>();
  return {"report",
          [words](CLI::App& app) { add_report_options(app, *words); },
          [words] {
            std::optional<KnownFindings> known;
            if (!words->known.empty()) known = KnownFindings::read(words->known);
            return report(words->folders, renderers_for(words->formats, words->out), words->out,
                          verbosity_of(words->verbosity),
                          words->is_full ? IndexUse::checked : IndexUse::believed, known);
          },
          {},
          [] {
            return OfferedWords{{"--format", format_names()}};
          }};
}

}  // namespace lockstep
