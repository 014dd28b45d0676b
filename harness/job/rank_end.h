#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/job/job_process.h"
#include "harness/job/rank_facts.h"
#include "harness/record/rank_status.h"
#include "harness/record/stall.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Everything that is known of how one rank of a watched job ended.
struct RankEndFacts {
  int rank = 0;
  RankStatus status = {};         ///< what it says itself
  std::int64_t last_step = 0;     ///< that it has written; 0: none
  bool is_last_updated = false;   ///< values after the update of that step were observed
  std::string hook_failure = {};  ///< why its hook switched itself off; empty: it did not
  StepPart error_part = StepPart::unknown;
  std::string last_call = {};                  ///< the collective before that; empty: unknown
  std::string error_place = {};                ///< of its error, in the user's code; empty: unknown
  std::vector<std::string> stack = {};         ///< of its error or abort, as `RankExit::stack`
  std::optional<Elsewhere> moved = {};         ///< it trained on in another process
  std::optional<std::string> aborted_in = {};  ///< by a fatal signal of its own; empty: unknown
  std::string aborted_call = {};               ///< torch's function that it was in; empty: unknown
  int signal = 0;                    ///< that ended it, as its launcher saw; 0: unknown, or none
  std::int64_t peak_bytes = 0;       ///< of memory, until its last step began; 0: unknown
  bool is_on_other_machine = false;  ///< nobody here saw it
  bool trains_on = false;            ///< its process lives, and has not said that it ends
  std::optional<StalledState> stalled = {};  ///< in a stall that was not over; absent: in none
  std::optional<JobEnd> job = {};            ///< absent: the command runs, or nobody saw it end
  bool has_peer_raised = false;              ///< an error ended some rank of the job
  bool has_peer_been_killed = false;         ///< a signal did that nobody sends to end a job
};

/// Whether somebody ended the job, or Lockstep did.
bool is_cut_short(const JobEnd& end);

/// Whether an error ended the rank, of which its own process says so.
bool has_raised(const RankEndFacts& facts);

/// Whether a signal ended the rank that nobody sends to end a job.
bool was_killed(const RankEndFacts& facts);

/// How the rank ended: the first line of one table that holds. A hang is no end (`add_stall`).
RankExit exit_of_rank(const RankEndFacts& facts);

}  // namespace lockstep
