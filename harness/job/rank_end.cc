#include "harness/job/rank_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "harness/launch/launch.h"
#include "reports/record/exit_cause.h"
#include "reports/record/stack_frame.h"

namespace lockstep {

namespace {

/// An interrupt is no error. torch.multiprocessing ends a process that is interrupted as one that
/// finished.
bool was_interrupted(const RankEndFacts& facts) {
  if (facts.status.raised) return facts.status.error.starts_with("KeyboardInterrupt");
  const auto& job = facts.job;
  return facts.status.ended && job && job->interrupted_by != 0 && job->status != 0;
}

bool was_cut_short(const RankEndFacts& facts) { return facts.job && is_cut_short(*facts.job); }

bool says_end(const RankEndFacts& facts) {
  return facts.status.raised || facts.status.ended || (facts.job && facts.job->status == 0);
}

bool is_on_other_machine(const RankEndFacts& facts) { return facts.is_on_other_machine; }

bool trains_on(const RankEndFacts& facts) { return facts.trains_on; }

bool is_unobserved(const RankEndFacts& facts) { return !facts.hook_failure.empty(); }

bool has_aborted(const RankEndFacts& facts) { return facts.aborted_in && !says_end(facts); }

/// Whether a signal ended it that asks a process to end.
bool was_asked_to_end(const RankEndFacts& facts) {
  const bool is_request =
      facts.signal == SIGTERM || facts.signal == SIGINT || facts.signal == SIGHUP;
  return is_request && !facts.status.raised && !facts.status.ended;
}

/// Launchers ask the other ranks to end once one has failed.
bool was_ended_after_peer(const RankEndFacts& facts) {
  const bool has_peer_failed = facts.has_peer_raised || facts.has_peer_been_killed;
  return was_asked_to_end(facts) && has_peer_failed && !was_cut_short(facts);
}

/// A process that took steps after it had forked the other one trains itself: that one is a helper,
/// such as an evaluation that trains a probe.
bool has_moved(const RankEndFacts& facts) {
  if (!facts.moved || has_raised(facts)) return false;
  const std::int64_t step = std::max(facts.status.step, facts.last_step);
  return facts.moved->step == 0 || step <= facts.moved->step;
}

/// A job that ends by a signal may have been killed as a whole. But if a rank raised an error, the
/// others died by themselves.
bool died_after_peer(const RankEndFacts& facts) {
  const bool has_open_end = was_interrupted(facts) || !says_end(facts);
  return has_open_end && facts.has_peer_raised && facts.job && !was_cut_short(facts);
}

bool has_lost_peer(const RankEndFacts& facts) {
  return has_raised(facts) && is_loss_of_peer(facts.status.error);
}

/// It says that it finished, but stood still until its job was ended from outside: processes that
/// torch.multiprocessing started end without an error when they are interrupted.
bool stood_still_until_cut(const RankEndFacts& facts) {
  return facts.stalled && *facts.stalled != StalledState::ended && was_cut_short(facts);
}

/// Somebody ended the job as a whole, or nobody saw its end.
bool was_ended_from_outside(const RankEndFacts& facts) {
  return !facts.job || was_cut_short(facts) || facts.job->status > 128;
}

bool always(const RankEndFacts&) { return true; }

struct Line {
  bool (*holds)(const RankEndFacts& facts);
  ExitKind kind;
  ExitCause cause;
};

/// The first line that holds says how a rank ended.
constexpr std::array<Line, 15> kLines{
    {{is_on_other_machine, ExitKind::unfinished, ExitCause::elsewhere},
     {trains_on, ExitKind::unfinished, ExitCause::interrupted},
     {is_unobserved, ExitKind::unfinished, ExitCause::interrupted},
     {has_aborted, ExitKind::unfinished, ExitCause::unseen},
     {was_killed, ExitKind::signalled, ExitCause::none},
     {has_moved, ExitKind::unfinished, ExitCause::interrupted},
     {was_ended_after_peer, ExitKind::unfinished, ExitCause::peer_failed},
     {died_after_peer, ExitKind::unfinished, ExitCause::unseen},
     {was_interrupted, ExitKind::unfinished, ExitCause::interrupted},
     {has_lost_peer, ExitKind::raised, ExitCause::lost_peer},
     {has_raised, ExitKind::raised, ExitCause::none},
     {stood_still_until_cut, ExitKind::unfinished, ExitCause::interrupted},
     {says_end, ExitKind::finished, ExitCause::none},
     {was_ended_from_outside, ExitKind::unfinished, ExitCause::interrupted},
     {always, ExitKind::unfinished, ExitCause::unseen}}};

/// "aborted at its all_reduce in main (train.py:65)".
std::string abort_in_words(const RankEndFacts& facts) {
  if (facts.aborted_in->empty()) return "aborted";
  return fmt::format("aborted {}in {}",
                     facts.aborted_call.empty() ? "" : "at its " + facts.aborted_call + " ",
                     frame_in_words(*facts.aborted_in));
}

std::string detail_of(const RankEndFacts& facts) {
  if (facts.is_on_other_machine) return "";
  if (facts.trains_on) return "it trains on";
  if (is_unobserved(facts)) return "no longer observed: " + facts.hook_failure;
  if (has_aborted(facts)) return abort_in_words(facts);
  if (was_killed(facts)) {
    const std::string name = signal_name(facts.signal);
    return facts.signal == SIGKILL ? name + ": out of memory?" : name;
  }
  if (has_lost_peer(facts) && !facts.last_call.empty()) {
    return "it lost its peer in its " + facts.last_call;
  }
  if (!has_moved(facts)) return "";
  return fmt::format(
      "it trains on in another process ({}), which is not observed: start that one under "
      "`lockstep watch`, or train in the first one",
      facts.moved->process);
}

}  // namespace

bool was_killed(const RankEndFacts& facts) {
  return facts.signal != 0 && !was_asked_to_end(facts) && !facts.status.raised &&
         !facts.status.ended;
}

bool is_cut_short(const JobEnd& end) { return end.is_cut || end.interrupted_by != 0; }

bool has_raised(const RankEndFacts& facts) {
  const bool is_known = !facts.is_on_other_machine && !facts.trains_on && !is_unobserved(facts);
  return is_known && facts.status.raised && !was_interrupted(facts);
}

RankExit exit_of_rank(const RankEndFacts& facts) {
  const Line& line = *std::find_if(kLines.begin(), kLines.end(),
                                   [&](const Line& one) { return one.holds(facts); });
  RankExit exit;
  exit.rank = facts.rank;
  exit.kind = line.kind;
  exit.cause = line.cause;
  if (exit.kind == ExitKind::signalled) {
    exit.code = facts.signal;
    if (facts.peak_bytes > 0) exit.peak_bytes = facts.peak_bytes;
  }
  exit.detail = detail_of(facts);
  exit.error = facts.status.error;
  exit.rows = facts.status.rows;
  exit.step = std::max(facts.status.step, facts.last_step);
  if (exit.kind == ExitKind::raised) {
    exit.place = facts.error_place;
    exit.during = facts.error_part;
  }
  if (exit.kind == ExitKind::raised || has_aborted(facts)) exit.stack = facts.stack;
  const bool is_last = facts.last_step == exit.step && facts.is_last_updated;
  exit.is_after_step =
      exit.kind != ExitKind::finished && (has_moved(facts) ? exit.step > 0 : is_last);
  return exit;
}

}  // namespace lockstep
