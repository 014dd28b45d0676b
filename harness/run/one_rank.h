#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/launch/helper_process.h"
#include "harness/launch/launch.h"
#include "harness/launch/launcher.h"
#include "harness/plan/plan.h"
#include "harness/run/world_exits.h"
#include "reports/base/exit_status.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// One rank of a cell, in a process that a foreign launcher started for it. This process only
/// supervises a forked rank. So any exit of the rank is recorded in `rank-N.exit.json` before the
/// launcher notices it and ends the others. The process of rank 0 serves the ranks' store, unless
/// the launcher does. It also collects the files of ranks on other machines that do not see its
/// folder.
class OneRank {
 public:
  /// Creates `folder`, which is the cell's. `limit` is for the rank. Throws Error (usage).
  OneRank(const PlannedCell& planned, std::filesystem::path folder, std::chrono::milliseconds limit,
          const ForeignPlacement& placement);
  ~OneRank();
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;

  /// Runs the rank, records its exit and returns it. Does not return if a signal asked this process
  /// to end meanwhile, or if the launcher is gone.
  RankExit run();

  /// Records, instead of running the rank, that the launcher's world is not the cell's.
  void refuse() const;

  /// For rank 0: waits for a limited time until all ranks are on record, and returns their exits.
  std::vector<RankExit> gather();

  /// For rank 0: sets the result of `see_off` in processes that do not see its folder.
  void conclude(ExitStatus status) { status_ = status; }

  /// For the others: sends the files of the rank to rank 0 if it does not see them. Then waits for
  /// a limited time until rank 0 no longer needs this process, because some launchers end all ranks
  /// when one that failed leaves. Returns rank 0's final status if this process does not see its
  /// folder.
  std::optional<ExitStatus> see_off();

 private:
  using Clock = std::chrono::steady_clock;

  void open_world();
  void enter_world();
  void close_world();
  void await_peers();
  RankPlacement placement() const;
  LaunchedOne launch();
  void leave_word(const RankExit& end) const;
  PeerState look_at_peers();
  std::optional<ExitStatus> send_and_hear() const;
  void tell() const;
  bool is_orphan() const;

  const PlannedCell& planned_;
  std::filesystem::path folder_;
  std::chrono::milliseconds limit_;
  ForeignPlacement placement_;
  Clock::time_point begin_;
  pid_t launcher_;  ///< the process that started this one
  Rendezvous rendezvous_;
  WorldExits exits_;
  bool is_open_ = false;                       ///< this is rank 0, and its world accepts ranks
  ExitStatus status_ = ExitStatus::undecided;  ///< final status of rank 0
  std::optional<HelperProcess> store_;
  std::optional<HelperProcess> receiver_;
  std::optional<HelperProcess> overdue_;
};

}  // namespace lockstep
