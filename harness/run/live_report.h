#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reports/base/status_line.h"
#include "reports/formats/screen.h"
#include "reports/record/result.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Whether processes were started for the cell.
inline bool has_run(const CellRecord& cell) { return cell.processes > 0; }

/// Reports the progress of a run on standard error: each failure once its cell has ended. On a
/// terminal it replaces one line; elsewhere it writes a line per scenario if there are several. For
/// that it judges a cell as soon as the cell and its reference have ended, but does not store the
/// judgement: the whole run is judged at its end.
class LiveReport {
 public:
  /// `run`: with all its cells, which are filled in as they end. Prints nothing with
  /// `Verbosity::verdict`.
  LiveReport(const RunRecord& run, std::filesystem::path folder, Verbosity verbosity);

  void begin(std::size_t cell);

  /// Notes that `cell` of the run is filled in.
  void end(std::size_t cell);

  /// The first cell seen to fail; absent: none.
  const std::optional<std::string>& first_failure() const { return first_failure_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_to_be_judged(std::size_t cell) const;
  void judge(std::size_t cell);
  void note(const CellRecord& judged);
  void end_scenario(const std::string& scenario);
  std::string progress_in_words() const;
  bool is_quiet() const { return screen_.verbosity == Verbosity::verdict; }

  const RunRecord& run_;
  std::filesystem::path folder_;
  Screen screen_;
  StatusLine line_;
  std::vector<bool> has_ended_;  ///< by cell
  std::vector<bool> is_judged_;  ///< by cell
  std::vector<CellRecord> failed_;
  std::size_t scenarios_ = 0;
  std::size_t ended_scenarios_ = 0;
  std::optional<std::string> first_failure_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace lockstep
