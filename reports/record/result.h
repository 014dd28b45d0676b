#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Result of a cell in reports.
///   as_expected   exactly the declared findings
///   failed        an unexpected finding, or another expectation was not met
///   not_found     the declared bug did not show
///   undecided     it ran, and could not be decided
///   not_run       it was not started, or its rendezvous failed
enum class Result { as_expected, failed, not_found, undecided, not_run };

template <>
struct Names<Result> {
  static constexpr std::array<std::string_view, 5> values{"as expected", "FAILED", "NOT FOUND",
                                                          "UNDECIDED", "NOT RUN"};
};

/// The result of a judged cell.
Result result_of(const CellRecord& cell);

/// The earliest difference between the ranks of a job; in one step, that of the first claim. Null:
/// none was found.
const Finding* first_difference(const JobRecord& job);

/// The finding of a job whose parameters became NaN or infinite. Null: none did.
const Finding* first_not_finite(const JobRecord& job);

/// The first difference, or what became not finite, whichever is earlier; in one step, the latter.
const Finding* first_fault_of_values(const JobRecord& job);

/// Whether ranks of a judged job waited, in a collective or for a message, for others that did not
/// come.
bool has_hung(const JobRecord& job);

/// That of an exit status, in the words of a verdict: "holds"; "nothing compared".
std::string_view verdict_name(ExitStatus status);

/// Whether the result contradicts the declaration.
bool is_failure(Result result);

/// Why a cell was not run: a violated precondition, the machine's fault or an interruption. Empty:
/// it was run.
std::string reason_not_run(const CellRecord& cell);

/// Why a result is not `as_expected`, in a line without a full stop: "rank 0 was killed by signal
/// 11 (SIGSEGV) in step 288". Empty if it is as expected.
std::string cause_of(const CellRecord& cell);

/// Whether the symptom of a cell is the cause. It is not if the cell declared it or has none.
bool is_explained_by_symptom(const CellRecord& cell);

/// Whether the cause is that ranks did not finish, against the declaration. Undecided claims are
/// then consequences.
bool is_caused_by_an_ending(const CellRecord& cell);

/// Whether `cause_of` already reports the failed check.
bool is_explained_by_cause(const CellRecord& cell, const Check& check);

/// "must be right", "must fail as declared", "must not be triggered".
std::string_view demand_on(const CellRecord& cell);

/// The result of one expectation: `expected "gradients agree across ranks" to hold, but it is
/// violated`.
std::string check_in_words(const Check& check);

/// One line of the detection table: counts of cells.
struct Detection {
  std::string scenario;
  DeviceKind device = DeviceKind::cpu;  ///< training devices of its cells
  int cells = 0;
  int declared = 0;              ///< cells that ran and declare a bug
  int found = 0;                 ///< of them, those in which everything declared was found
  std::array<int, 5> results{};  ///< by Result

  int& operator[](Result result) { return results.at(static_cast<std::size_t>(result)); }
  int operator[](Result result) const { return results.at(static_cast<std::size_t>(result)); }

  bool operator==(const Detection&) const = default;
};

/// One line per scenario, in the order of the record.
std::vector<Detection> detections(const RunRecord& run);

}  // namespace lockstep
