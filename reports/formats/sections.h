#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// A cell as a report tells it. Later repetitions that went as expected are not shown again: the
/// first one counts them. Neither is the reason why cells were not run, but in a matrix.
struct ShownCell {
  const CellRecord* record = nullptr;
  std::vector<const CellRecord*> folded;  ///< later repetitions, as expected
  int repetitions = 1;                    ///< of this cell; told by the first
  int as_expected = 0;                    ///< of them
  std::vector<const CellRecord*> alike;   ///< other cells, not run for the same reason
};

/// What is shown under one title: the cells and tables of a scenario in one world. Where a variant
/// was run with more than one choice of axis values, it is a matrix.
struct Section {
  /// "frozen-tower, 2 ranks on sim, k=3": the device unless it is the CPU, and the choices that are
  /// no default, but for a matrix.
  std::string title;
  std::vector<const Table*> tables;
  std::vector<ShownCell> cells;
  bool is_matrix = false;
  int jobs = 1;  ///< the most cells of the run that ran at a time
};

/// The sections of a report, in the order of the record, which they point into.
std::vector<Section> sections_of(const RunRecord& run);

/// How a heading names a cell.
///   variant     "bypass (buggy)": below a title that says the rest
///   with_axes   and its axis values
///   in_full     "loss-on-unwrapped-module/bypass (buggy), 2 ranks on sim, k=3"
enum class Naming { variant, with_axes, in_full };

/// "bypass (buggy): as expected; equal to the reference bit for bit"; "FAILED: through-wrapper
/// (fixed, must be right): rank 0 was killed by signal 11 (SIGSEGV) in step 288"; "NOT RUN: bypass
/// (buggy), each (fixed): no GPU is there".
std::string heading_of(const ShownCell& cell, Naming naming = Naming::variant);

/// The expectations that were not met, but for the one that the heading tells, and what became of a
/// cell that was meant not to be triggered, a line each.
std::vector<std::string> shown_checks(const CellRecord& cell);

/// What could not be decided, a line for each reason; one line where ranks did not come to their
/// end, since it follows from that.
std::vector<std::string> shown_undecided(const CellRecord& cell);

/// "equal to the reference bit for bit", "off by at most 15 % of the tolerance 3.6e-07 (4
/// perturbed references)", "off by at most 4 times the tolerance 3.6e-07"; of memory "no more than
/// the reference", "above the reference by 4 %".
/// Requires: the result has a margin.
std::string margin_in_words(const ClaimResult& result);

/// For each claim of a cell the result of the repetition that is told or folded with the largest
/// margin.
std::vector<const ClaimResult*> nearest_results(const ShownCell& cell);

/// The result that came closest to its tolerance, of the claims about the reference; null when one
/// of them is violated, which its finding says, or none has a margin.
const ClaimResult* nearest_to_tolerance(const ShownCell& cell);

}  // namespace lockstep
