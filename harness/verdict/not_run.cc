#include "harness/verdict/not_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "harness/judge/ranks/exits.h"

namespace lockstep {

namespace {

bool is_unstarted(const RankExit& end) { return end.kind == ExitKind::unstarted; }

/// Whether a rank began the rendezvous and did not complete it.
bool is_unmet(const RankExit& end) {
  return end.rendezvous == RendezvousState::begun || end.rendezvous == RendezvousState::failed;
}

/// Whether the rank's body caused its exit: it completed the rendezvous, or ended before it.
bool is_of_the_body(const RankExit& end) {
  const bool was_ended = is_unstarted(end) || end.kind == ExitKind::unfinished;
  return end.rendezvous == RendezvousState::met || (!was_ended && !is_unmet(end));
}

/// The most informative exit: an error of its own before a lost peer, and that before a mere wait;
/// the earliest of them.
const RankExit& telling(const std::vector<RankExit>& exits) {
  const auto weight = [](const RankExit& end) {
    if (end.kind == ExitKind::unfinished) return 2;
    return end.cause == ExitCause::lost_peer ? 1 : 0;
  };
  return *std::min_element(exits.begin(), exits.end(), [&](const RankExit& a, const RankExit& b) {
    return std::pair(weight(a), a.order) < std::pair(weight(b), b.order);
  });
}

std::string unmet_in_words(const RankExit& end) {
  if (end.limit_s) {
    return fmt::format("the ranks could not meet within their limit of {} s", *end.limit_s);
  }
  const std::string error = first_sentence(end.error);
  return fmt::format("the ranks could not meet: rank {} {}", end.rank,
                     error.empty() ? exit_in_words(end) : "raised: " + error);
}

}  // namespace

std::optional<NotRun> why_not_run(const std::vector<RankExit>& exits) {
  if (exits.empty() || std::any_of(exits.begin(), exits.end(), is_of_the_body)) return std::nullopt;
  const auto missing = std::find_if(exits.begin(), exits.end(), is_unstarted);
  if (missing != exits.end()) {
    return NotRun{NotRunCause::no_process,
                  fmt::format("rank {} {}", missing->rank, exit_in_words(*missing))};
  }
  if (!std::all_of(exits.begin(), exits.end(), is_unmet)) return std::nullopt;
  return NotRun{NotRunCause::no_rendezvous, unmet_in_words(telling(exits))};
}

}  // namespace lockstep
