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

/// One rank of a cell, where a foreign launcher started this process to be it. This process only
/// supervises: the rank is forked, so that its end, whatever it is, is on record in
/// `rank-N.exit.json` before the launcher hears of it and ends the others. The process of rank 0
/// serves the store in which ranks meet, unless the launcher does, and gathers what ranks of other
/// machines leave where they do not see its folder.
class OneRank {
 public:
  /// `folder` is the cell's; it is made. `limit` is for the rank. Throws Error (usage).
  OneRank(const PlannedCell& planned, std::filesystem::path folder, std::chrono::milliseconds limit,
          const ForeignPlacement& placement);
  ~OneRank();
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;

  /// Runs the rank, leaves its end on record and returns it. Where a signal asked this process to
  /// end meanwhile, or the launcher is gone, it does not return.
  RankExit run();

  /// Leaves on record, instead of running the rank, that the launcher's world is not the cell's.
  void refuse() const;

  /// For rank 0: waits, not for ever, until all ranks are on record, and returns their ends.
  std::vector<RankExit> gather();

  /// For rank 0: what `see_off` returns in processes that do not see its folder.
  void conclude(ExitStatus status) { status_ = status; }

  /// For the others: brings the files of the rank to rank 0, where it does not see them, and waits,
  /// not for ever, until the process of rank 0 needs this one no longer: some launchers end all
  /// when one leaves whose rank failed. Returns the status that rank 0 concluded with where this
  /// process does not see its folder.
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
  bool is_open_ = false;                       ///< this is rank 0, and its world can be entered
  ExitStatus status_ = ExitStatus::undecided;  ///< that rank 0 concludes with
  std::optional<HelperProcess> store_;
  std::optional<HelperProcess> receiver_;
  std::optional<HelperProcess> overdue_;
};

}  // namespace lockstep
