#include "harness/run/run_cells.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "harness/launch/interruption.h"
#include "harness/launch/launch.h"
#include "harness/launch/signal_watch.h"
#include "harness/record/run_folder.h"
#include "harness/run/cell_process.h"
#include "harness/run/run_cell.h"
#include "reports/base/error.h"
#include "reports/base/status_line.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Says which cell runs, when somebody is watching.
class Progress {
 public:
  explicit Progress(std::size_t cells) : cells_(cells) {}

  void begin(const Cell& cell) {
    line_.show(fmt::format("[{}/{}] {}", ++begun_, cells_, title_of(cell)));
  }

 private:
  StatusLine line_;
  std::size_t cells_;
  std::size_t begun_ = 0;
};

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

void note_interruption(RunRecord& run) {
  if (Interruption::noted() == 0) return;
  run.notes.push_back(fmt::format("interrupted by {}: {} of {} cells were run",
                                  signal_name(Interruption::noted()), cells_that_ran(run),
                                  run.cells.size()));
}

/// While it lives, the status of a child waits to be asked for: a caller that ignores SIGCHLD has
/// the kernel throw it away.
class SeenChildren {
 public:
  SeenChildren() {
    struct sigaction by_default {};
    by_default.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &by_default, &previous_);
  }
  ~SeenChildren() { ::sigaction(SIGCHLD, &previous_, nullptr); }
  SeenChildren(const SeenChildren&) = delete;
  SeenChildren& operator=(const SeenChildren&) = delete;

 private:
  struct sigaction previous_ {};
};

/// Cells that run at the same time.
class RunningCells {
 public:
  explicit RunningCells(int jobs) : jobs_(static_cast<std::size_t>(jobs)) {}

  bool is_empty() const { return running_.empty(); }

  bool has_room_for(const PlannedCell& planned) const {
    return running_.empty() || (running_.size() < jobs_ && !needs_machine_alone(planned) &&
                                !needs_machine_alone(*running_.front().planned));
  }

  /// `index`: of the cell in the run. False where no process can be made as long as others run.
  bool start(const PlannedCell& planned, std::size_t index,
             const std::function<CellRecord()>& run) {
    try {
      running_.push_back({&planned, index, CellProcess([&] {
                            for (Running& other : running_) other.process.leave_to_parent();
                            return run();
                          })});
    } catch (const Error&) {
      if (running_.empty()) throw;
      return false;
    }
    return true;
  }

  /// Blocks until a cell has ended, or a signal came that asks this process to end.
  void wait(RunRecord& run) {
    const int signal = wait_for_signal(run);
    if (signal != 0) ::raise(signal);  // as if it had come now
  }

 private:
  struct Running {
    const PlannedCell* planned;
    std::size_t index;
    CellProcess process;
  };

  /// A GPU's memory and time are not shared with another cell.
  static bool needs_machine_alone(const PlannedCell& planned) {
    return planned.cell.device == "cuda" && planned.expectation.not_applicable.empty();
  }

  /// Returns the signal that asked this process to end; 0: a cell has ended.
  int wait_for_signal(RunRecord& run) {
    SignalWatch watch;  // what comes from here on is kept for `next`
    if (Interruption::noted() != 0 && !is_interrupted_) interrupt(Interruption::noted());
    while (!take_ended(run)) {
      const auto signal = watch.next(std::chrono::steady_clock::now() + std::chrono::hours(1));
      if (!signal || signal->si_signo == SIGCHLD) continue;
      interrupt(signal->si_signo);
      // What is not noted ends this process: not before its cells.
      if (signal->si_signo == SIGHUP) wait_for_all(watch);
      return signal->si_signo;
    }
    return 0;
  }

  void wait_for_all(SignalWatch& watch) const {
    const auto has_ended = [](const Running& running) { return running.process.has_ended(); };
    while (!std::all_of(running_.begin(), running_.end(), has_ended)) {
      watch.next(std::chrono::steady_clock::now() + std::chrono::seconds(1));
    }
  }

  void interrupt(int signal) {
    is_interrupted_ = true;
    for (const Running& running : running_) running.process.interrupt(signal);
  }

  /// Whether one had ended.
  bool take_ended(RunRecord& run) {
    const auto ended = std::find_if(running_.begin(), running_.end(), [](const Running& running) {
      return running.process.has_ended();
    });
    if (ended == running_.end()) return false;
    CellRecord record = ended->process.take();
    const bool was_to_run = record.expectation.not_applicable.empty();
    if (was_to_run && !has_run(record) && Interruption::noted() == 0 && !is_interrupted_) {
      throw cell_process_ended("was asked by a signal to end");
    }
    run.cells[ended->index] = std::move(record);
    running_.erase(ended);
    return true;
  }

  std::size_t jobs_;
  bool is_interrupted_ = false;
  std::list<Running> running_;
};

}  // namespace

std::size_t cells_that_ran(const RunRecord& run) {
  return static_cast<std::size_t>(std::count_if(run.cells.begin(), run.cells.end(), has_run));
}

void run_cells(const std::vector<PlannedCell>& cells, int jobs, std::chrono::milliseconds limit,
               const LauncherCommand* launcher, const fs::path& folder, RunRecord& run) {
  const SeenChildren seen;
  Progress progress(cells.size());
  GrowingRecord record(folder, run);
  RunningCells running(jobs);
  for (std::size_t next = 0;;) {
    const bool may_start = next < cells.size() && Interruption::noted() == 0;
    const auto start_next = [&] {
      const PlannedCell& planned = cells[next];
      return running.start(planned, next,
                           [&] { return run_cell(planned, folder, limit, launcher); });
    };
    if (may_start && running.has_room_for(cells[next]) && start_next()) {
      progress.begin(cells[next++].cell);
    } else if (!running.is_empty()) {
      running.wait(run);
      record.save_when_due();
    } else {
      break;
    }
  }
  note_interruption(run);
  save_record(folder, run);  // before it is judged: the judge may fail
}

}  // namespace lockstep
