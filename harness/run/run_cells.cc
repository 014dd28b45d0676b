#include "harness/run/run_cells.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "harness/launch/interruption.h"
#include "harness/launch/launch.h"
#include "harness/launch/signal_watch.h"
#include "harness/record/run_folder.h"
#include "harness/run/cell_process.h"
#include "harness/run/large_pages.h"
#include "harness/run/live_report.h"
#include "harness/run/run_cell.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Saves the record of a run as it grows. Saving takes at most a tenth of the time, so a record of
/// a thousand cells is not written a thousand times.
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

void note_interruption(RunRecord& run) {
  if (Interruption::noted() == 0) return;
  run.notes.push_back(fmt::format("interrupted by {}: {} of {} cells were run",
                                  signal_name(Interruption::noted()), cells_that_ran(run),
                                  run.cells.size()));
}

/// The order of starting cells: references first, so that a cell can be judged as soon as it has
/// ended.
std::vector<std::size_t> starting_order(const std::vector<PlannedCell>& cells) {
  std::map<std::string, std::size_t> scenarios;
  for (std::size_t i = 0; i < cells.size(); ++i) scenarios.try_emplace(cells[i].cell.scenario, i);
  std::vector<std::size_t> order(cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto place = [&](std::size_t i) {
    const Cell& cell = cells[i].cell;
    return std::tuple(cell.repetition, scenarios.at(cell.scenario), cell.role != Role::reference);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  return order;
}

/// Records the reason in all cells that were not begun or were ended.
void note_stop(const std::string& failure, RunRecord& run) {
  const std::size_t ran = cells_that_ran(run);
  for (CellRecord& cell : run.cells) {
    if (has_run(cell) || !cell.expectation.not_applicable.empty()) continue;
    cell.expectation.not_applicable =
        fmt::format("the run stopped at its first failure, {} (--fail-fast)", failure);
  }
  run.notes.push_back(fmt::format("stopped at the first failure, {}: {} of {} cells were run",
                                  failure, ran, run.cells.size()));
}

/// Keeps the exit status of children while it lives: if a caller ignores SIGCHLD, the kernel
/// discards it.
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

  /// `index`: of the cell in the run. False if no process can be created as long as others run.
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

  /// Blocks until a cell has ended or a signal asks this process to end. Returns the cell's index
  /// in the run; nothing for a signal.
  std::optional<std::size_t> wait(RunRecord& run) {
    ended_.reset();
    const int signal = wait_for_signal(run);
    if (signal != 0) ::raise(signal);  // as if it came now
    return ended_;
  }

  /// Ends the running cells, which then count as not run.
  void stop() { interrupt(SIGTERM); }

 private:
  struct Running {
    const PlannedCell* planned;
    std::size_t index;
    CellProcess process;
  };

  /// A GPU's memory and time are not shared with another cell.
  static bool needs_machine_alone(const PlannedCell& planned) {
    return planned.cell.device == DeviceKind::cuda && planned.expectation.not_applicable.empty();
  }

  /// Returns the signal that asked this process to end; 0: a cell has ended.
  int wait_for_signal(RunRecord& run) {
    SignalWatch watch;  // keeps later signals for `next`
    if (Interruption::noted() != 0 && !is_interrupted_) interrupt(Interruption::noted());
    while (!take_ended(run)) {
      const auto signal = watch.next(std::chrono::steady_clock::now() + std::chrono::hours(1));
      if (!signal || signal->si_signo == SIGCHLD) continue;
      interrupt(signal->si_signo);
      // A signal that is not noted ends this process, but only after its cells.
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

  /// Whether a cell had ended.
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
    ended_ = ended->index;
    running_.erase(ended);
    return true;
  }

  std::size_t jobs_;
  bool is_interrupted_ = false;
  std::list<Running> running_;
  std::optional<std::size_t> ended_;  ///< last
};

}  // namespace

std::size_t cells_that_ran(const RunRecord& run) {
  return static_cast<std::size_t>(std::count_if(run.cells.begin(), run.cells.end(), has_run));
}

void run_cells(const std::vector<PlannedCell>& cells, const RunOptions& options,
               const fs::path& folder, RunRecord& run) {
  move_heap_to_large_pages();
  const SeenChildren seen;
  LiveReport live(run, folder, options.verbosity);
  GrowingRecord record(folder, run);
  RunningCells running(options.jobs);
  const std::vector<std::size_t> order = starting_order(cells);
  bool is_stopped = false;
  for (std::size_t next = 0;;) {
    const bool may_start = next < cells.size() && Interruption::noted() == 0 && !is_stopped;
    const auto start_next = [&] {
      const PlannedCell& planned = cells[order[next]];
      return running.start(planned, order[next], [&] {
        return run_cell(planned, folder, options.limit, options.launcher);
      });
    };
    if (may_start && running.has_room_for(cells[order[next]]) && start_next()) {
      live.begin(order[next++]);
    } else if (!running.is_empty()) {
      const auto ended = running.wait(run);
      if (ended) live.end(*ended);
      record.save_when_due();
      if (options.fails_fast && live.first_failure() && !std::exchange(is_stopped, true)) {
        running.stop();
      }
    } else {
      break;
    }
  }
  if (is_stopped) note_stop(*live.first_failure(), run);
  note_interruption(run);
  save_record(folder, run);  // before judging, which may fail
}

}  // namespace lockstep
