#pragma once

#include <string>
#include <vector>

#include "reports/record/comparison.h"

namespace lockstep {

/// A side as a row of a report shows it.
struct SideRow {
  std::string role;     ///< "A", "B"; of a fix "reference", "before", "after"
  std::string side;     ///< "train.py, 2 ranks, 8 steps (runs/a)"
  std::string outcome;  ///< "equal up to rounding in 8 steps, 1 to 8"; of the others how it went
};

/// "train.py, 2 ranks, compared with one_gpu.py, 1 rank".
std::string title_of(const Comparison& comparison);

/// The answer: "DIFFERENT: ..."; with an expectation "as expected (bug): ..."; of a fix "FIXED:
/// ..."; of a repetition "reproducible: the repetition has the same bits".
std::string heading_of(const Comparison& comparison);

/// The sides, a row each. Empty: no comparison was made.
std::vector<SideRow> rows_of(const Comparison& comparison);

/// A cell of a matrix of fixes.
struct FixRow {
  std::string cell;     ///< "ranks=2, layout=ddp"
  std::string before;   ///< "6 of 8 updates differ in step 1, ..."
  std::string after;    ///< "equal up to rounding in 4 steps, 1 to 4"
  std::string outcome;  ///< "FIXED"
};

/// Whether there are several comparisons, all of them of fixes: the cells of a matrix.
bool is_matrix_of_fixes(const std::vector<Comparison>& comparisons);

/// Its rows; requires that it is one.
std::vector<FixRow> fix_rows_of(const std::vector<Comparison>& comparisons);

/// Its answer: "FIXED in 2 of 3 cells, NOT SHOWN in 1. ranks=8: the changed files ...".
std::string heading_of(const std::vector<Comparison>& comparisons);

/// What else is to say beside the heading and the rows: preconditions, further tensors, names.
std::vector<std::string> details_of(const Comparison& comparison);

/// The whole comparison as lines of text, as those of a pair. The heading is the last paragraph of
/// a fix, and the verdict of any other.
std::vector<std::string> lines_of(const Comparison& comparison);

}  // namespace lockstep
