#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/run/capabilities.h"
#include "reports/base/exit_status.h"
#include "reports/formats/screen.h"
#include "reports/record/run_record.h"

namespace lockstep {

struct RunRequest {
  Selection selection;
  std::chrono::milliseconds limit{60'000};  ///< per cell
  std::optional<int> jobs;                  ///< cells at a time; absent: `default_jobs`
  std::string out;                          ///< folder; empty: runs/<utc>
  std::vector<std::string> formats;         ///< files to write beside what is shown
  Verbosity verbosity = Verbosity::overview;
  bool fails_fast = false;                ///< the first failure ends the run
  std::vector<Requirement> requirements;  ///< what must be there, or nothing is run
  std::vector<std::string> command;       ///< as typed, for the record
  bool has_ranks = false;                 ///< world sizes were asked for
  std::string launcher;     ///< that starts the ranks; empty: whoever started this process, else it
  std::string cell_folder;  ///< not empty: this is a rank that another run had a launcher start
  int cell_repetition = 1;  ///< of that rank's cell
};

/// `lockstep run`: runs the cells, saves the record, judges it, writes the reports and shows the
/// console one. Returns the exit status. Throws Error (usage) before anything runs when the request
/// is wrong, Error (unmet) when what it requires is not there; that also where nothing ran.
ExitStatus run_command(const RunRequest& request, const std::vector<Scenario>& scenarios);

/// The record of a run that begins now: all cells of `plan`, none of which has been run.
/// `launcher`: that starts the ranks, as `--launcher` names it; empty: none.
RunRecord plan_record(const RunRequest& request, const Plan& plan, const std::string& launcher);

}  // namespace lockstep
