#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/base/exit_status.h"
#include "reports/record/cell.h"
#include "reports/record/claim.h"
#include "reports/record/collective_mismatch.h"
#include "reports/record/finding.h"

namespace lockstep {

/// Name and version of the record's schema (reports/record/record.schema.json). Fields are only
/// added within a major version; a removal or a new name raises it. Records of 1.x are read by the
/// names that they have; one of a later major version is refused.
inline constexpr std::string_view kSchemaName = "lockstep.record";
inline constexpr int kSchemaMajor = 2;
inline constexpr int kSchemaMinor = 0;

/// How a rank ended.
///   finished     its body returned
///   raised       an exception left its body
///   exited       the process ended itself otherwise
///   signalled    a signal ended it
///   unfinished   it was still there at the limit and was ended by Lockstep
///   unstarted    the process could not be made
enum class ExitKind { finished, raised, exited, signalled, unfinished, unstarted };

template <>
struct Names<ExitKind> {
  static constexpr std::array<std::string_view, 6> values{"finished",  "raised",     "exited",
                                                          "signalled", "unfinished", "unstarted"};
};

/// Why a rank ended, where its `ExitKind` does not say it all.
///   none         nothing more is known
///   stopped      unfinished: a signal had stopped its process
///   time_limit   unfinished: it was still there at the limit
///   peer_failed  unfinished: it was ended because another rank had failed
///   interrupted  unfinished: Lockstep was interrupted
///   unseen       unfinished: nobody saw how it ended
///   lost_peer    raised: by the words of its transport, a peer was gone or did not come
///   no_progress  unfinished: no rank had come further for the time limit of a hang
enum class ExitCause {
  none,
  stopped,
  time_limit,
  peer_failed,
  interrupted,
  unseen,
  lost_peer,
  no_progress
};

template <>
struct Names<ExitCause> {
  static constexpr std::array<std::string_view, 8> values{
      "none",        "stopped", "time limit", "peer failed",
      "interrupted", "unseen",  "lost peer",  "no progress"};
};

/// How far a rank got in meeting the others of its world, before their first collective.
///   not_begun   its body never asked for the group
///   begun       it was in there when it ended
///   met         it met all others
///   failed      the rendezvous raised an error
enum class RendezvousState { not_begun, begun, met, failed };

template <>
struct Names<RendezvousState> {
  static constexpr std::array<std::string_view, 4> values{"not begun", "begun", "met", "failed"};
};

/// The end of one rank of one cell.
struct RankExit {
  int rank = 0;
  ExitKind kind = ExitKind::finished;
  int code = 0;             ///< exit status or signal number
  int order = 0;            ///< 0 for the first rank that ended
  std::int64_t step = 0;    ///< step that the rank was in; 0: none begun
  std::string error;        ///< text of the exception
  std::string detail;       ///< "SIGABRT", "stopped by SIGSTOP", "limit of 2 s"
  std::string last_output;  ///< the last lines of its log, when it did not finish
  /// Line of the scenario's source where the variant parts; 0: never reached; absent: not known.
  std::optional<int> line;
  /// Median time of a step without observing; absent: the body did not end. A clock field.
  std::optional<double> step_s;
  /// Rows of its journal, as it said when it had ended; absent: it did not say.
  std::optional<std::int64_t> rows = {};
  /// When it was seen to end, by its host's monotonic clock; absent: not known. A clock field.
  std::optional<std::int64_t> ended_ns = {};
  /// The time limit at which Lockstep ended it, of the cell or of a time without progress; absent:
  /// it was not ended for that.
  std::optional<double> limit_s = {};
  /// When `step` was begun, by the same clock as `ended_ns`; absent: not known. A clock field.
  std::optional<std::int64_t> step_began_ns = {};
  std::optional<RendezvousState> rendezvous = {};  ///< absent: not known
  ExitCause cause = ExitCause::none;

  bool operator==(const RankExit&) const = default;
};

/// "raised an error", "was killed by signal 6 (SIGABRT)", "did not finish within its limit of 2 s",
/// "did not finish (stopped by SIGSTOP)".
std::string exit_in_words(const RankExit& end);

/// What the judge says of one claim.
struct ClaimResult {
  Claim claim;
  Verdict verdict = Verdict::undecided;
  std::string reason;            ///< why undecided: "not triggered", "within 10 times ..."
  std::int64_t comparisons = 0;  ///< tensors compared; 0 is never `holds`
  std::optional<double> margin;  ///< largest difference in units of its tolerance
  /// The tolerance there, relative to the tensor.
  std::optional<double> tolerance;
  std::string tolerance_from;     ///< "4 perturbed references", "2 roundings of a sum"; empty: none
  std::vector<Finding> findings;  ///< not empty exactly when violated

  bool operator==(const ClaimResult&) const = default;
};

/// One expectation of a cell, compared with the findings.
struct Check {
  enum class Result { found, missed, false_alarm, as_promised, undecided };
  std::string promise;  ///< what "it" does: "breaks gradients agree across ranks", "meets <table>"
  Result result = Result::as_promised;
  std::string text;                 ///< what is wrong, or why it is undecided
  std::optional<Claim> claim = {};  ///< that is to hold or to be violated; absent: about no claim

  bool operator==(const Check&) const = default;
};

template <>
struct Names<Check::Result> {
  static constexpr std::array<std::string_view, 5> values{"found", "missed", "false alarm",
                                                          "as promised", "undecided"};
};

/// Whether the promise was kept, or the declared break found.
bool is_as_promised(const Check& check);

/// Verdict of a cell: its findings against its expectation. Reports use the words of `Result`.
enum class CellVerdict { as_expected, not_applicable, undecided, missed, false_alarm };

template <>
struct Names<CellVerdict> {
  static constexpr std::array<std::string_view, 5> values{"as expected", "not applicable",
                                                          "undecided", "missed", "false alarm"};
};

/// What one step costs one rank, as an average over the steps; of the rank with most of it.
struct Cost {
  double collectives = 0;
  double bytes = 0;              ///< of the tensors that were handed to collectives
  std::optional<double> step_s;  ///< median time of a step without observing; a clock field
  std::optional<std::int64_t> memory = {};  ///< bytes, the largest of Kind::memory; absent: none

  bool operator==(const Cost&) const = default;
};

/// What a run of a cell came to, with the evidence that a line has room for.
struct Symptom {
  SymptomKind kind = SymptomKind::undecided;
  std::int64_t step = 0;        ///< of the error; else the first wrong step; 0: none
  std::int64_t wrong_step = 0;  ///< first step with wrong values; 0: none was seen
  std::string tensor;           ///< the first wrong tensor; empty: none was seen
  std::optional<double> ratio;  ///< of that tensor to the reference, where ranks agree
  std::optional<double> cosine;
  std::string error;  ///< the first sentence of the framework's own error
  std::string text;   ///< the line: "raised in step 2 after a wrong step 1: ..."

  bool operator==(const Symptom&) const = default;
};

/// Why the ranks of a cell never began to train although they were launched: the machine's fault,
/// which says nothing about the scenario.
///   no_process      a rank's process could not be made
///   no_rendezvous   all ranks came to the rendezvous and none met the others
enum class NotRunCause { no_process, no_rendezvous };

template <>
struct Names<NotRunCause> {
  static constexpr std::array<std::string_view, 2> values{"no process", "no rendezvous"};
};

/// A cell that was launched and not run.
struct NotRun {
  NotRunCause cause = NotRunCause::no_rendezvous;
  std::string reason;  ///< "the ranks could not meet: rank 0: Too many open files"

  bool operator==(const NotRun&) const = default;
};

/// Everything that one cell left behind and everything that was made of it.
struct CellRecord {
  Cell cell;
  std::string folder;            ///< inside the run's folder
  std::string reference_folder;  ///< of the reference cell; empty when there is none
  int processes = 0;             ///< 0: not run
  double duration_s = 0;         ///< launch to the end of the last rank; a clock field
  std::string source;            ///< "scenarios/.../file.cc:41", where the variant parts
  std::string reproduce;         ///< the command that runs this cell alone
  std::vector<Claim> claims;
  Expectation expectation;
  std::vector<RankExit> exits;
  std::vector<ClaimResult> results;  ///< one per claim, in the same order; empty before judging
  std::vector<Check> checks;
  CellVerdict verdict = CellVerdict::undecided;
  std::vector<std::string> notes;  ///< torn last rows and the like
  Symptom symptom;                 ///< of the judged cell
  std::optional<Cost> cost;        ///< absent when a rank did not finish, or there is one only
  std::optional<CollectiveMismatch> mismatch = {};  ///< absent: ranks met in every collective
  /// Of a foreign launcher that started the ranks: "mpirun -n 2"; empty: Lockstep started them.
  std::string launcher = {};
  std::optional<NotRun> not_run = {};  ///< absent: it was run, or never launched

  bool operator==(const CellRecord&) const = default;
};

/// What a table shows of a tensor.
///   element     one element per rank, and whether all ranks hold the same bits of the tensor
///   drift       max |value on rank i - value on rank j| over all pairs, whole tensor
///   norm        L2 norm per rank, whether all ranks hold the same bits, and the drift of all
///               parameters before the forward pass
///   distance    max |value on rank i - value on rank 0| per rank
enum class Quantity { element, drift, norm, distance };

template <>
struct Names<Quantity> {
  static constexpr std::array<std::string_view, 4> values{"element", "drift", "norm", "distance"};
};

/// What a scenario wants printed, in the layout of its published table.
struct TableSpec {
  struct Group {
    std::string heading;  ///< "BUGGY"
    std::string variant;

    bool operator==(const Group&) const = default;
  };
  std::string title;  ///< stands above the table, a colon behind it
  Quantity quantity = Quantity::element;
  Kind kind = Kind::gradient;
  Phase phase = Phase::pre_step;
  std::string tensor;        ///< empty: all tensors of the kind together
  std::int64_t element = 0;  ///< row-major index, for Quantity::element
  std::string symbol;        ///< "g" in the column heading "g_r0"
  int digits = 5;            ///< after the point, when printed
  std::vector<Group> groups;
  std::int64_t first_step = 1;      ///< what the table calls the first step: 0 or 1
  std::vector<std::int64_t> steps;  ///< that are shown, from 1; empty: all

  bool operator==(const TableSpec&) const = default;
};

/// A table with the values of one run; one group of columns per variant that was run.
struct Table {
  struct Entry {
    std::vector<double> values;   ///< one per rank, or the drift alone; NaN where not measured
    bool synced = false;          ///< all ranks hold the same bits of the whole tensor
    std::optional<double> drift;  ///< for Quantity::norm; NaN where not measured

    bool is_measured() const;  ///< any value is not NaN

    bool operator==(const Entry&) const = default;
  };
  struct Row {
    std::int64_t step = 0;
    std::vector<Entry> entries;  ///< one per group

    bool operator==(const Row&) const = default;
  };
  std::string scenario;
  int world_size = 0;
  std::vector<AxisValue> axes;
  TableSpec spec;
  std::vector<Row> rows;

  bool operator==(const Table&) const = default;
};

/// Versions, place and surroundings of a run. Clock and host fields differ from run to run;
/// nothing else in a record does.
struct RunEnvironment {
  std::string started_utc;  ///< "2026-11-20T18:52:46Z"; a clock field
  std::string host;         ///< a host field
  std::string lockstep_version;
  std::string torch_version;
  std::string compiler;
  std::string digest;                                          ///< "lockstep-2"
  std::vector<std::pair<std::string, std::string>> variables;  ///< allow-listed ones, by name
  int jobs = 1;  ///< the most cells that ran at a time

  bool operator==(const RunEnvironment&) const = default;
};

/// What was planned when the run began: by it a record shows that something was taken out of it.
struct PlannedCounts {
  std::int64_t cells = 0;
  std::int64_t claims = 0;  ///< of all cells

  bool operator==(const PlannedCounts&) const = default;
};

/// Counts the cells of a run and their claims.
PlannedCounts counts_of(const std::vector<CellRecord>& cells);

/// One run: what a renderer renders, what record.json holds.
struct RunRecord {
  std::vector<std::string> command;
  RunEnvironment environment;
  std::vector<CellRecord> cells;
  std::vector<Table> tables;
  std::vector<std::string> notes;  ///< what to know of the run as a whole: "134 of 512 choices"
  std::optional<PlannedCounts> planned = {};  ///< absent in records before 1.4

  bool operator==(const RunRecord&) const = default;
};

/// Of a judged run: that of its worst cell; `not_applicable` when no cell applies.
ExitStatus exit_status(const RunRecord& run);

}  // namespace lockstep
