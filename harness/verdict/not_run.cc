#include "harness/verdict/not_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "harness/judge/ranks/exits.h"

namespace lockstep {

namespace {

bool is_unstarted(const RankEnd& end) { return end.ending == Ending::unstarted; }

/// Whether a rank came to the rendezvous and did not get out of it.
bool is_unmet(const RankEnd& end) {
  return end.rendezvous == RendezvousState::begun || end.rendezvous == RendezvousState::failed;
}

/// Whether the body of a rank did this: it got past the rendezvous, or ended before it.
bool is_of_the_body(const RankEnd& end) {
  const bool was_ended = is_unstarted(end) || end.ending == Ending::unfinished;
  return end.rendezvous == RendezvousState::met || (!was_ended && !is_unmet(end));
}

/// The rank whose end says most: one with an error of its own before one that lost a peer, these
/// before one that only waited, the first of them in time.
const RankEnd& telling(const std::vector<RankEnd>& ends) {
  const auto weight = [](const RankEnd& end) {
    if (end.ending == Ending::unfinished) return 2;
    return end.cause == ExitCause::lost_peer ? 1 : 0;
  };
  return *std::min_element(ends.begin(), ends.end(), [&](const RankEnd& a, const RankEnd& b) {
    return std::pair(weight(a), a.order) < std::pair(weight(b), b.order);
  });
}

std::string unmet_in_words(const RankEnd& end) {
  if (end.limit_s) {
    return fmt::format("the ranks could not meet within their limit of {} s", *end.limit_s);
  }
  const std::string error = first_sentence(end.error);
  return fmt::format("the ranks could not meet: rank {} {}", end.rank,
                     error.empty() ? how(end) : "raised: " + error);
}

}  // namespace

std::optional<NotRun> why_not_run(const std::vector<RankEnd>& ends) {
  if (ends.empty() || std::any_of(ends.begin(), ends.end(), is_of_the_body)) return std::nullopt;
  const auto missing = std::find_if(ends.begin(), ends.end(), is_unstarted);
  if (missing != ends.end()) {
    return NotRun{NotRunCause::no_process, fmt::format("rank {} {}", missing->rank, how(*missing))};
  }
  if (!std::all_of(ends.begin(), ends.end(), is_unmet)) return std::nullopt;
  return NotRun{NotRunCause::no_rendezvous, unmet_in_words(telling(ends))};
}

}  // namespace lockstep
