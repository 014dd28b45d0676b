#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// What a report calls the result of a cell.
///   as_expected   what was declared was found, and nothing else
///   failed        an unexpected finding, or something else that was expected did not come
///   not_found     the declared bug did not show
///   undecided     it was run, and could not be decided
///   not_run       it was not started, or its ranks never met
enum class Result { as_expected, failed, not_found, undecided, not_run };

template <>
struct Names<Result> {
  static constexpr std::array<std::string_view, 5> values{"as expected", "FAILED", "NOT FOUND",
                                                          "UNDECIDED", "NOT RUN"};
};

/// The result of a judged cell.
Result result_of(const CellRecord& cell);

/// Whether the result says that the program does something else than declared.
bool is_failure(Result result);

/// Why a cell was not run: the violated precondition, the machine's fault, or that the run was
/// interrupted. Empty: it was run.
std::string reason_not_run(const CellRecord& cell);

/// What made a result other than `as_expected`, in a line without a full stop: "rank 0 was killed
/// by signal 11 (SIGSEGV) in step 288". Empty where the result is as expected.
std::string cause_of(const CellRecord& cell);

/// Whether the symptom of a cell is the cause: it is not where the cell declared it, or has none.
bool is_explained_by_symptom(const CellRecord& cell);

/// Whether the cause is that ranks did not come to their end, and not as declared: claims that
/// stayed open are consequences of it.
bool is_caused_by_an_ending(const CellRecord& cell);

/// Whether `cause_of` says what a check that was not met says.
bool is_explained_by_cause(const CellRecord& cell, const Check& check);

/// "must be right", "must fail as declared", "must not be triggered".
std::string_view demand_on(const CellRecord& cell);

/// What became of one expectation: `expected "gradients agree across ranks" to hold, but it is
/// violated`.
std::string check_in_words(const Check& check);

/// One line of the detection table: counts of cells.
struct Detection {
  std::string scenario;
  std::string device = "cpu";  ///< that its cells train on
  int cells = 0;
  int declared = 0;              ///< cells that were run and declare a bug
  int found = 0;                 ///< of them, those in which all that is declared was found
  std::array<int, 5> results{};  ///< by Result

  int& operator[](Result result) { return results.at(static_cast<std::size_t>(result)); }
  int operator[](Result result) const { return results.at(static_cast<std::size_t>(result)); }

  bool operator==(const Detection&) const = default;
};

/// One line per scenario, in the order of the record.
std::vector<Detection> detections(const RunRecord& run);

}  // namespace lockstep
