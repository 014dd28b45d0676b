#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"
#include "reports/record/claim.h"
#include "reports/record/collective_mismatch.h"
#include "reports/record/finding.h"
#include "reports/record/symptom.h"

namespace lockstep {

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

/// What one step costs one rank, as an average over the steps; of the rank with most of it.
struct Cost {
  double collectives = 0;
  double bytes = 0;              ///< of the tensors that were handed to collectives
  std::optional<double> step_s;  ///< median time of a step without observing; a clock field
  std::optional<std::int64_t> memory = {};  ///< bytes, the largest of Kind::memory; absent: none

  bool operator==(const Cost&) const = default;
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

/// The steps in which any rank observed something.
struct ObservedSteps {
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< 0: none
  std::int64_t last = 0;

  bool operator==(const ObservedSteps&) const = default;
};

/// The list of an execution's files (docs/formats.md, "Manifest"), by which a change of any of them
/// is seen.
struct ManifestSeal {
  std::int64_t files = 0;  ///< that it lists
  std::int64_t bytes = 0;  ///< of the list itself; a clock field, since files have times in them
  std::string digest;      ///< of these bytes, as text; a clock field

  bool operator==(const ManifestSeal&) const = default;
};

/// Ranks that ran together, how they ended, and what the judge made of what they wrote: what a
/// cell, a watched job and each side of a comparison share.
struct Execution {
  std::string folder;     ///< inside the run's folder
  int processes = 0;      ///< that left files: the ranks, or the copies of a reference; 0: not run
  double duration_s = 0;  ///< launch to the end of the last rank; a clock field
  /// Of a foreign launcher that started the ranks: "mpirun -n 2"; empty: Lockstep started them.
  std::string launcher;
  std::vector<RankExit> exits;
  std::optional<ManifestSeal> manifest = {};  ///< absent: not run, or before 2.0
  std::vector<Claim> claims;
  std::vector<ClaimResult> results;  ///< one per claim, in the same order; empty before judging
  ObservedSteps steps;               ///< of the judged execution
  Symptom symptom;                   ///< of the judged execution
  std::optional<CollectiveMismatch> mismatch = {};  ///< absent: ranks met in every collective
  std::optional<Cost> cost;            ///< absent when a rank did not finish, or there is one only
  std::optional<NotRun> not_run = {};  ///< absent: it was run, or never launched
  std::vector<std::string> notes;      ///< torn last rows and the like

  bool operator==(const Execution&) const = default;
};

}  // namespace lockstep
