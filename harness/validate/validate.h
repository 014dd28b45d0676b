#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/validate/code_states.h"
#include "harness/validate/command_cells.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The arguments of `lockstep validate`.
struct ValidationRequest {
  std::string before;                  ///< a state; empty: only `after` is compared
  std::string after = ".";             ///< a state
  std::vector<std::string> command;    ///< trains, with {NAME} of axes
  std::vector<std::string> reference;  ///< trains right, likewise; empty: nobody knows how
  std::vector<CommandAxis> axes;
  StateOptions states;
  std::optional<std::int64_t> seed;  ///< of rank 0; absent: the script seeds itself
  double stall_s = 120;              ///< without progress, after which a job that hangs is ended
  bool has_coverage = false;  ///< looks which changed lines were executed, if a fix shows nothing
  std::string reuse;          ///< folder of an earlier run, whose references may count; empty: none
  std::string folder;         ///< of the run, which exists
  std::function<void(const std::string& line)> say;  ///< tells of the progress
};

/// What was validated: a comparison for each cell.
struct Validation {
  std::vector<Comparison> comparisons;
  std::vector<std::string> notes;
  int interrupted_by = 0;  ///< a signal; 0: none
};

/// Runs the jobs of all cells in their states and compares them. Every job has a folder in that of
/// the run, with its record and its output. `version`: of this program. Throws Error (usage) if a
/// state cannot be made or a command cannot be started.
Validation validate(const ValidationRequest& request, const std::string& version);

}  // namespace lockstep
