#include "harness/cli/report_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "harness/cli/reading_progress.h"
#include "harness/cli/screen_options.h"
#include "harness/cli/standard_output.h"
#include "harness/job/job_record.h"
#include "harness/record/journal.h"
#include "harness/record/run_folder.h"
#include "harness/record/watch_control.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"
#include "reports/formats/renderer.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

/// Bytes of journals. Each is read three times: as a file of the manifest, its index or its rows,
/// then the steps.
std::uint64_t bytes_to_read(const RunRecord& run, const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  const auto add = [&](const Execution& execution) {
    for (int rank = 0; rank < execution.processes; ++rank) {
      std::error_code missing;
      const auto journal = journal_file(folder / execution.folder, rank);
      const auto size = std::filesystem::file_size(journal, missing);
      if (!missing) bytes += (execution.manifest ? 3 : 2) * size;
    }
  };
  for (const CellRecord& cell : run.cells) add(cell);
  for (const JobRecord& job : run.jobs) add(job);
  return bytes;
}

/// A job that still runs, and that nobody else follows, stores values from now on if its ranks
/// differ.
void ask_to_keep(const RunRecord& run, const std::filesystem::path& folder) {
  for (const JobRecord& job : run.jobs) {
    const bool differs = !job.unsealed.empty() && first_difference(job);
    if (differs) WatchControl(folder / job.folder).ask_to_keep();
  }
}

ExitStatus report(const std::vector<std::string>& folders, const std::string& format,
                  Verbosity verbosity, IndexUse use) {
  const Renderer& renderer = find_renderer(format);
  const bool is_console = format == "console";
  const bool is_text = is_console || format == "markdown";
  if (folders.size() > 1 && !is_text) {
    throw bad_value("--format", format, "console or markdown for several folders");
  }
  ExitStatus status = ExitStatus::as_expected;
  for (const std::string& named : folders) {
    const std::filesystem::path folder = run_folder_of(named);
    RunRecord run = load_record(folder);
    take_up(run, folder);
    {
      ReadingProgress progress(bytes_to_read(run, folder));
      judge_run(run, folder, {use, [&](std::uint64_t bytes) { progress.add(bytes); }});
    }
    ask_to_keep(run, folder);
    if (folders.size() > 1) {
      write_standard_output(
          fmt::format("{}{}\n\n", &named == &folders[0] ? "" : "\n", folder.string()));
    }
    write_standard_output(is_console
                              ? render_screen(run, screen_of(STDOUT_FILENO, verbosity, folder))
                              : renderer.render(run));
    status = worse(status, exit_status(run));
  }
  return status;
}

struct ReportWords {
  std::vector<std::string> folders;
  std::string format = "console";
  bool is_full = false;
  VerbosityFlags verbosity;
};

void add_report_options(CLI::App& app, ReportWords& words) {
  app.add_option("RUN", words.folders, "folder of the run; several: one after the other")
      ->required()
      ->type_name("");
  app.add_option("--format", words.format, "one of " + formats_in_words())
      ->type_name("FORMAT")
      ->capture_default_str();
  app.add_flag(
      "--full", words.is_full,
      "read every row, even of steps in which the index of the journals shows that ranks agree");
  add_verbosity_options(app, words.verbosity,
                        "print a line per variant with its symptom; -vv: every finding, table and "
                        "cost");
}

}  // namespace

Command report_command() {
  auto words = std::make_shared<ReportWords>();
  return {"report", [words](CLI::App& app) { add_report_options(app, *words); },
          [words] {
            return report(words->folders, words->format, verbosity_of(words->verbosity),
                          words->is_full ? IndexUse::checked : IndexUse::believed);
          }};
}

}  // namespace lockstep
