#include "harness/run/run_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "harness/cli/standard_output.h"
#include "harness/launch/interruption.h"
#include "harness/launch/launch.h"
#include "harness/launch/launcher.h"
#include "harness/launch/launcher_command.h"
#include "harness/launch/machine.h"
#include "harness/plan/empty_tables.h"
#include "harness/plan/select_cells.h"
#include "harness/record/run_folder.h"
#include "harness/record/whole_file.h"
#include "harness/run/direct_start.h"
#include "harness/run/environment.h"
#include "harness/run/run_cell.h"
#include "harness/verdict/judge_run.h"
#include "reference/published_table.h"
#include "reports/base/current_folder.h"
#include "reports/base/error.h"
#include "reports/formats/renderer.h"
#include "reports/record/result.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNoLauncher = "none";
/// What starts ranks that MPI connects, when nobody says otherwise.
constexpr const char* kMpiLauncher = "mpirun -n {ranks}";

/// One line on standard error that says which cell runs, when somebody is watching.
class Progress {
 public:
  explicit Progress(std::size_t cells) : cells_(cells), is_shown_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() { clear(); }

  void begin(const Cell& cell) {
    ++begun_;
    if (!is_shown_) return;
    clear();
    const std::string line = fmt::format("[{}/{}] {}", begun_, cells_, title_of(cell));
    std::fputs(line.substr(0, width() - 1).c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  /// A line that wraps could not be taken back.
  static std::size_t width() {
    winsize size{};
    const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return is_known ? size.ws_col : 80;
  }

  void clear() const {
    if (is_shown_) std::fputs("\r\033[K", stderr);
  }

  std::size_t cells_;
  std::size_t begun_ = 0;
  bool is_shown_;
};

std::vector<const Renderer*> renderers_of(const std::vector<std::string>& formats) {
  std::vector<const Renderer*> chosen;
  for (const std::string& format : formats) chosen.push_back(&find_renderer(format));
  return chosen;
}

/// A table that cannot be read is told before the ranks run, not after.
void check_promised_tables(const std::vector<PlannedCell>& cells) {
  for (const PlannedCell& planned : cells) {
    for (const std::string& id : planned.expectation.meets) {
      read_published_table(published_table_file(id));
    }
  }
}

/// Saves the record of a run as it grows, often, but so that saving takes a tenth of the time at
/// most: a record of a thousand cells is not written a thousand times.
class GrowingRecord {
 public:
  GrowingRecord(const fs::path& folder, const RunRecord& run) : folder_(folder), run_(run) {}

  void save_when_due() {
    if (Clock::now() >= due_) save();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void save() {
    const Clock::time_point begin = Clock::now();
    save_record(folder_, run_);
    const Clock::time_point end = Clock::now();
    due_ = end + 9 * (end - begin);
  }

  const fs::path& folder_;
  const RunRecord& run_;
  Clock::time_point due_;
};

bool has_run(const CellRecord& cell) { return cell.processes > 0; }

std::size_t cells_that_ran(const RunRecord& run) {
  return static_cast<std::size_t>(std::count_if(run.cells.begin(), run.cells.end(), has_run));
}

void note_interruption(RunRecord& run) {
  if (Interruption::noted() == 0) return;
  run.notes.push_back(fmt::format("interrupted by {}: {} of {} cells were run",
                                  signal_name(Interruption::noted()), cells_that_ran(run),
                                  run.cells.size()));
}

void run_cells(const std::vector<PlannedCell>& cells, std::chrono::milliseconds limit,
               const LauncherCommand* launcher, const fs::path& folder, RunRecord& run) {
  Progress progress(cells.size());
  GrowingRecord record(folder, run);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    progress.begin(cells[i].cell);
    run.cells[i] = run_cell(cells[i], folder, limit, launcher);
    if (Interruption::noted() != 0) break;
    record.save_when_due();
  }
  note_interruption(run);
  save_record(folder, run);  // before it is judged: the judge may fail
}

}  // namespace

RunRecord plan_record(const RunRequest& request, const Plan& plan, const std::string& launcher) {
  RunRecord run;
  for (const std::string& word : request.command) run.command.push_back(mask_secrets(word));
  run.environment = describe_environment(utc_now());
  run.tables = empty_tables_of(plan.cells);
  run.notes = plan.notes;
  plan_cells(run, plan.cells, launcher);
  return run;
}

namespace {

/// As the one rank that somebody's launcher wants this process to be.
ExitStatus run_as_rank(const RunRequest& request, const std::vector<Scenario>& scenarios,
                       const ForeignPlacement& placement) {
  require_current_folder();
  return request.cell_folder.empty() ? direct_start(request, scenarios, placement)
                                     : be_rank_of_cell(request, scenarios, placement);
}

/// The size of the largest world that is to run.
int most_ranks(const std::vector<PlannedCell>& cells) {
  int most = 0;
  for (const PlannedCell& planned : cells) {
    const bool is_run = planned.expectation.not_applicable.empty();
    if (is_run) most = std::max(most, planned.cell.world_size);
  }
  return most;
}

/// The launcher that was asked for, or that the backend needs; nothing where ranks are forked.
std::optional<LauncherCommand> launcher_of(const RunRequest& request) {
  const bool needs_mpirun = request.selection.backend == "mpi";
  if (needs_mpirun && request.launcher == kNoLauncher) throw no_mpi_launcher();
  if (!request.launcher.empty() && request.launcher != kNoLauncher) {
    return LauncherCommand(request.launcher);
  }
  if (needs_mpirun) return LauncherCommand(kMpiLauncher);
  return std::nullopt;
}

/// "Interrupted: 31 of 261 cells done, 31 as expected."
std::string interrupted_in_words(const RunRecord& run) {
  std::string text =
      fmt::format("Interrupted: {} of {} cells done", cells_that_ran(run), run.cells.size());
  for (std::size_t i = 0; i < Names<Result>::values.size(); ++i) {
    const auto count = std::count_if(run.cells.begin(), run.cells.end(), [&](const auto& cell) {
      return has_run(cell) && result_of(cell) == static_cast<Result>(i);
    });
    if (count > 0) text += fmt::format(", {} {}", count, Names<Result>::values.at(i));
  }
  return text + ".";
}

ExitStatus say_interrupted(const RunRecord& run, const std::string& folder) {
  std::fputs(
      fmt::format("{} Report: lockstep report {}\n", interrupted_in_words(run), folder).c_str(),
      stderr);
  return Interruption::noted() == SIGTERM ? ExitStatus::terminated : ExitStatus::interrupted;
}

}  // namespace

ExitStatus run_command(const RunRequest& request, const std::vector<Scenario>& scenarios) {
  if (request.launcher.empty()) {
    const auto placement = foreign_placement(::getenv);
    if (placement) return run_as_rank(request, scenarios, *placement);
    if (!request.cell_folder.empty()) throw launcher_gave_no_rank();
  }
  const std::optional<LauncherCommand> launcher = launcher_of(request);
  Selection selection = request.selection;
  std::optional<Capability> gpus;
  if (needs_gpus(scenarios, selection)) {
    gpus = find_gpu_capability(kAnswerLimit);
    selection.gpus = gpus_for_plan(*gpus);
  }
  const Plan plan = select_cells(scenarios, selection);
  const std::vector<PlannedCell>& cells = plan.cells;
  const std::vector<const Renderer*> chosen = renderers_of(request.formats);
  check_backend(selection.backend);
  check_promised_tables(cells);
  require_current_folder();
  check_requirements(request.requirements, gpus);
  if (!launcher) check_machine(most_ranks(cells));
  RunRecord run = plan_record(request, plan, launcher ? launcher->text() : "");
  const fs::path shown_folder = make_run_folder(request.out, run);
  // A rank may change its directory.
  const fs::path folder = fs::absolute(shown_folder);

  const Interruption interruption;
  run_cells(cells, request.limit, launcher ? &*launcher : nullptr, folder, run);

  judge_run(run, folder);
  save_record(folder, run);
  for (const Renderer* renderer : chosen) {
    write_whole_file(folder / ("report." + renderer->extension), renderer->render(run));
  }
  if (Interruption::noted() != 0) return say_interrupted(run, shown_folder);
  write_standard_output(render_console(run) + fmt::format("Files: {}\n", shown_folder.string()));
  const ExitStatus status = exit_status(run);
  if (status == ExitStatus::not_applicable && !request.requirements.empty()) throw nothing_ran();
  return status;
}

}  // namespace lockstep
