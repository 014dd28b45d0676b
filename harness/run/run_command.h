#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "harness/run/capabilities.h"
#include "reports/base/exit_status.h"
#include "reports/base/private_files.h"
#include "reports/formats/screen.h"
#include "reports/record/known_findings.h"
#include "reports/record/run_record.h"

namespace lockstep {

struct RunRequest {
  Selection selection;
  std::chrono::milliseconds limit{60'000};  ///< per cell
  std::optional<int> jobs;                  ///< cells at a time; absent: `default_jobs`
  std::string out;                          ///< folder; empty: runs/<utc>
  Readers readers = Readers::owner;
  std::vector<std::string> formats;  ///< files to write in addition to the console report
  Verbosity verbosity = Verbosity::overview;
  bool fails_fast = false;                ///< the first failure ends the run
  std::vector<Requirement> requirements;  ///< unless all are met, nothing runs
  std::vector<std::string> command;       ///< as typed, for the record
  bool has_ranks = false;                 ///< world sizes were given
  std::optional<KnownFindings> known;     ///< do not fail
  std::string launcher;                   ///< starts the ranks; empty: this process or its launcher
  std::string cell_folder;  ///< not empty: this is a rank that another run's launcher started
  int cell_repetition = 1;  ///< of that rank's cell
};

/// `lockstep run`: runs the cells, saves the record, judges it, writes the reports and shows the
/// console one. Returns the exit status. Throws Error (usage) before anything runs if the request
/// is wrong, and Error (unmet) if a requirement is not met or nothing ran.
ExitStatus run_command(const RunRequest& request, const std::vector<Scenario>& scenarios);

/// The record of a run that begins now: all cells of `plan`, none of them run. `launcher`: the
/// argument of `--launcher`; empty: none.
RunRecord plan_record(const RunRequest& request, const Plan& plan, const std::string& launcher);

}  // namespace lockstep
