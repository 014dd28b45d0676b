#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"
#include "reports/record/charts.h"
#include "reports/record/claim.h"
#include "reports/record/collective_mismatch.h"
#include "reports/record/finding.h"
#include "reports/record/symptom.h"

namespace lockstep {

/// Kind of a rank's exit.
///   finished     its body returned
///   raised       an exception left its body
///   exited       the process ended itself in another way
///   signalled    a signal ended it
///   unfinished   it was still running at the limit and was ended by Lockstep
///   unstarted    the process could not be created
enum class ExitKind { finished, raised, exited, signalled, unfinished, unstarted };

template <>
struct Names<ExitKind> {
  static constexpr std::array<std::string_view, 6> values{"finished",  "raised",     "exited",
                                                          "signalled", "unfinished", "unstarted"};
};

/// Cause of a rank's exit, in addition to its `ExitKind`.
///   none         no further information
///   stopped      unfinished: a signal had stopped its process
///   time_limit   unfinished: it was still running at the limit
///   peer_failed  unfinished: it was ended because another rank had failed
///   interrupted  unfinished: Lockstep was interrupted
///   unseen       unfinished: its end was not observed
///   lost_peer    raised: according to its transport, a peer was gone or never came
///   no_progress  unfinished: no rank made progress for the time limit of a hang
///   elsewhere    unfinished: it ran on another machine, so its end was not observed here
enum class ExitCause {
  none,
  stopped,
  time_limit,
  peer_failed,
  interrupted,
  unseen,
  lost_peer,
  no_progress,
  elsewhere
};

template <>
struct Names<ExitCause> {
  static constexpr std::array<std::string_view, 9> values{
      "none",   "stopped",   "time limit",  "peer failed", "interrupted",
      "unseen", "lost peer", "no progress", "elsewhere"};
};

/// Progress of a rank in the rendezvous of its world, before the first collective.
///   not_begun   its body never asked for the group
///   begun       it was in the rendezvous when it ended
///   met         the rendezvous completed
///   failed      the rendezvous raised an error
enum class RendezvousState { not_begun, begun, met, failed };

template <>
struct Names<RendezvousState> {
  static constexpr std::array<std::string_view, 4> values{"not begun", "begun", "met", "failed"};
};

/// The part of a step that was running, by the stack of an error. Passes after an update belong to
/// the next step.
enum class StepPart { unknown, forward, backward, update };

template <>
struct Names<StepPart> {
  static constexpr std::array<std::string_view, 4> values{"unknown", "forward", "backward",
                                                          "update"};
};

/// Exit of one rank of one cell.
struct RankExit {
  int rank = 0;
  ExitKind kind = ExitKind::finished;
  int code = 0;             ///< exit status or signal number
  int order = 0;            ///< 0 for the first rank that ended
  std::int64_t step = 0;    ///< current step at the end; 0: none begun
  std::string error;        ///< text of the exception
  std::string detail;       ///< "SIGABRT", "stopped by SIGSTOP", "limit of 2 s"
  std::string last_output;  ///< the last lines of its log, if it did not finish
  /// Line of the branch point in the scenario's source; 0: never reached; absent: unknown.
  std::optional<int> line;
  /// Median time of a step without observing; absent: the body did not end. A clock field.
  std::optional<double> step_s;
  /// Rows of its journal, as reported at its end; absent: not reported.
  std::optional<std::int64_t> rows = {};
  /// Observed time of its end, by its host's monotonic clock; absent: unknown. A clock field.
  std::optional<std::int64_t> ended_ns = {};
  /// The time limit at which Lockstep ended it, for the whole cell or for a time without progress;
  /// absent: not ended at a limit.
  std::optional<double> limit_s = {};
  /// Start of `step`, by the same clock as `ended_ns`; absent: unknown. A clock field.
  std::optional<std::int64_t> step_began_ns = {};
  std::optional<RendezvousState> rendezvous = {};  ///< absent: unknown
  ExitCause cause = ExitCause::none;
  /// Of a watched job, whose steps begin with an update: that of `step` had ended.
  bool is_after_step = false;
  /// Of `error`, or where it hangs, in the user's code: "train.py:31"; empty: unknown.
  std::string place = {};
  StepPart during = StepPart::unknown;  ///< of `error`, in a watched job
  bool awaits_message = false;          ///< it hangs in a call from point to point
  /// Where it was, innermost first: "forward, model.py:31"; empty: unknown. Of a watched job.
  std::vector<std::string> stack = {};
  /// The most memory of the process until its last step began, if a signal ended it; absent:
  /// unknown.
  std::optional<std::int64_t> peak_bytes = {};

  bool operator==(const RankExit&) const = default;
};

/// "raised an error at train.py:31", "was killed by signal 6 (SIGABRT)", "did not finish within its
/// limit of 2 s", "did not finish (stopped by SIGSTOP)".
std::string exit_in_words(const RankExit& end);

/// "in step 4", "after step 4", "before the first step", "in the backward pass of step 1".
std::string end_in_words(const RankExit& end);

/// Whether every rank came to its end. Without ranks it is true.
bool all_finished(const std::vector<RankExit>& exits);

/// The judge's result for one claim.
struct ClaimResult {
  Claim claim;
  Verdict verdict = Verdict::undecided;
  std::string reason;            ///< why undecided: "not triggered", "within 10 times ..."
  std::int64_t comparisons = 0;  ///< tensors compared; 0 is never `holds`
  std::optional<double> margin;  ///< largest difference, in units of its tolerance
  /// The tolerance for that difference, relative to the tensor.
  std::optional<double> tolerance;
  std::string tolerance_from;     ///< "4 perturbed references", "2 roundings of a sum"; empty: none
  std::vector<Finding> findings;  ///< not empty exactly when violated
  /// Tensors whose gradients differ before the steps of an optimizer that reduces them itself:
  /// their parameters agree after each.
  std::int64_t reduced_in_step = 0;

  bool operator==(const ClaimResult&) const = default;
};

/// Cost of one step on one rank, averaged over the steps; of the rank with the highest.
struct Cost {
  double collectives = 0;
  double bytes = 0;              ///< of the tensors passed to collectives
  std::optional<double> step_s;  ///< median time of a step without observing; a clock field
  std::optional<std::int64_t> memory = {};  ///< largest Kind::memory value, in bytes; absent: none

  bool operator==(const Cost&) const = default;
};

/// Why the ranks of a cell were launched but never began to train. The machine is at fault, so it
/// says nothing about the scenario.
///   no_process      a rank's process could not be created
///   no_rendezvous   all ranks began the rendezvous and none completed it
enum class NotRunCause { no_process, no_rendezvous };

template <>
struct Names<NotRunCause> {
  static constexpr std::array<std::string_view, 2> values{"no process", "no rendezvous"};
};

/// A cell that was launched but never ran.
struct NotRun {
  NotRunCause cause = NotRunCause::no_rendezvous;
  std::string reason;  ///< "the ranks could not meet: rank 0: Too many open files"

  bool operator==(const NotRun&) const = default;
};

/// The steps with an observation on any rank.
struct ObservedSteps {
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< 0: none
  std::int64_t last = 0;
  std::int64_t thinned = 0;  ///< of these: ranks agreed, and their rows were removed

  bool operator==(const ObservedSteps&) const = default;
};

/// Digest of the list of an execution's files (docs/formats.md, "Manifest"). It reveals a change of
/// any file.
struct ManifestSeal {
  std::int64_t files = 0;  ///< number of listed files
  std::int64_t bytes = 0;  ///< of the list; a clock field, since files contain times
  std::string digest;      ///< of these bytes, as text; a clock field

  bool operator==(const ManifestSeal&) const = default;
};

/// Ranks that ran together, their exits, and the judge's results. Cells, watched jobs and each side
/// of a comparison share this type.
struct Execution {
  std::string folder;     ///< inside the run's folder
  int processes = 0;      ///< that left files: the ranks, or the copies of a reference; 0: not run
  double duration_s = 0;  ///< from launch to the last rank's exit; a clock field
  /// The foreign launcher that started the ranks: "mpirun -n 2"; empty: Lockstep started them.
  std::string launcher;
  std::vector<RankExit> exits;
  std::optional<ManifestSeal> manifest = {};  ///< absent: not run, or killed before
  std::vector<Claim> claims;
  std::vector<ClaimResult> results;  ///< one per claim, in the same order; empty before judging
  ObservedSteps steps;               ///< of the judged execution
  Symptom symptom;                   ///< of the judged execution
  std::optional<CollectiveMismatch> mismatch = {};  ///< absent: no mismatch
  std::optional<Cost> cost;            ///< absent if a rank did not finish, or there is only one
  std::optional<NotRun> not_run = {};  ///< absent: it ran, or was never launched
  std::vector<std::string> notes;      ///< torn last rows and similar
  std::optional<Charts> charts = {};   ///< absent: no format asked for them; never in record.json

  bool operator==(const Execution&) const = default;
};

}  // namespace lockstep
