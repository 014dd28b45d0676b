#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// A cell in a report. Later repetitions that went as expected are not shown again; the first one
/// counts them. Cells not run for the same reason are shown once, except in a matrix.
struct ShownCell {
  const CellRecord* record = nullptr;
  std::vector<const CellRecord*> folded;  ///< later repetitions, as expected
  int repetitions = 1;                    ///< of this cell; shown with the first
  int as_expected = 0;                    ///< of them
  std::vector<const CellRecord*> alike;   ///< other cells, not run for the same reason
};

/// The contents below one title: the cells and tables of a scenario in one world. It is a matrix if
/// a variant was run with more than one choice of axis values.
struct Section {
  /// "frozen-tower, 2 ranks on sim, k=3": the device unless it is the CPU, and the choices that are
  /// not the default, except for a matrix.
  std::string title;
  std::vector<const Table*> tables;
  std::vector<ShownCell> cells;
  bool is_matrix = false;
  int jobs = 1;  ///< the most cells of the run at the same time
};

/// The sections of a report, in the order of the record, with pointers into it.
std::vector<Section> sections_of(const RunRecord& run);

/// The name of a cell in a heading.
///   variant     "bypass (buggy)": below a title with the rest
///   with_axes   and its axis values
///   in_full     "loss-on-unwrapped-module/bypass (buggy), 2 ranks on sim, k=3"
enum class Naming { variant, with_axes, in_full };

/// "bypass (buggy): as expected; equal to the reference bit for bit"; "FAILED: through-wrapper
/// (fixed, must be right): rank 0 was killed by signal 11 (SIGSEGV) in step 288"; "NOT RUN: bypass
/// (buggy), each (fixed): no GPU is there".
std::string heading_of(const ShownCell& cell, Naming naming = Naming::variant);

/// The expectations that were not met, except the one in the heading; and the result of a cell that
/// should not be triggered. A line each.
std::vector<std::string> shown_checks(const CellRecord& cell);

/// Undecided claims, a line for each reason; one line if ranks did not finish, because that is the
/// reason for all.
std::vector<std::string> shown_undecided(const CellRecord& cell);

/// "equal to the reference bit for bit", "off by at most 15 % of the tolerance 3.6e-07 (4 perturbed
/// references)", "off by at most 4 times the tolerance 3.6e-07"; for memory "no more than the
/// reference", "above the reference by 4 %". Requires: the result has a margin.
std::string margin_in_words(const ClaimResult& result);

/// For each claim of a cell, its result with the largest margin, from the shown repetition or a
/// folded one.
std::vector<const ClaimResult*> nearest_results(const ShownCell& cell);

/// The result closest to its tolerance, among the claims about the reference. Null if one of them
/// is violated, because its finding says that, or if none has a margin.
const ClaimResult* nearest_to_tolerance(const ShownCell& cell);

}  // namespace lockstep
