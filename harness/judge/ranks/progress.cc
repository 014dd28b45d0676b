#include "harness/judge/ranks/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "harness/judge/evidence/case.h"
#include "harness/judge/ranks/exits.h"

namespace lockstep {

namespace {

constexpr double kNanosecondsPerSecond = 1e9;

const std::vector<Collective>* calls_of(const Case& the_case, int rank) {
  return the_case.evidence ? the_case.evidence->collectives(rank) : nullptr;
}

/// When a rank did something last; 0 where nothing is known of it.
std::int64_t last_act_ns(const Case& the_case, const RankEnd& end) {
  std::int64_t last = end.step_began_ns.value_or(0);
  const std::vector<Collective>* const calls = calls_of(the_case, end.rank);
  if (!calls) return last;
  for (const Collective& call : *calls) {
    last = std::max({last, call.entered_ns, call.completed_ns});
  }
  return last;
}

/// How long a late rank had from its first call on, in seconds; without one, its limit.
double time_of(const Case& the_case, const RankEnd& end) {
  const std::vector<Collective>* const calls = calls_of(the_case, end.rank);
  if (!calls || calls->empty()) return *end.limit_s;
  return static_cast<double>(*end.ended_ns - calls->front().entered_ns) / kNanosecondsPerSecond;
}

/// The ranks that did not finish, without those that only saw a peer go.
std::vector<RankEnd> failed_in(const Case& the_case) {
  std::vector<RankEnd> failed = the_case.ends;
  std::erase_if(failed, [&](const RankEnd& end) {
    return end.ending == Ending::finished || has_lost_peer(the_case, end);
  });
  return failed;
}

}  // namespace

bool is_late(const RankEnd& end) {
  return end.ending == Ending::unfinished && end.limit_s && end.ended_ns;
}

bool is_long_ago(const Case& the_case, const RankEnd& end, std::int64_t since_ns) {
  const double spent = static_cast<double>(*end.ended_ns - since_ns) / kNanosecondsPerSecond;
  return spent >= kFairPart * time_of(the_case, end) && spent >= kLeastPartOfLimit * *end.limit_s;
}

bool is_stuck(const Case& the_case, const RankEnd& end) {
  return is_long_ago(the_case, end, last_act_ns(the_case, end));
}

bool was_training(const Case& the_case) {
  const std::vector<RankEnd> failed = failed_in(the_case);
  return std::all_of(failed.begin(), failed.end(), is_late) &&
         std::any_of(failed.begin(), failed.end(),
                     [&](const RankEnd& end) { return !is_stuck(the_case, end); });
}

std::string progress_in_words(const Case& the_case) {
  if (!was_training(the_case)) return "";
  const std::vector<RankEnd> failed = failed_in(the_case);
  const auto furthest =
      std::max_element(failed.begin(), failed.end(),
                       [](const RankEnd& a, const RankEnd& b) { return a.step < b.step; });
  const std::string planned = the_case.steps > 0 ? fmt::format(" of {}", the_case.steps) : "";
  return fmt::format("still making progress at the limit of {} s, {}: raise --timeout",
                     *furthest->limit_s,
                     furthest->step > 0 ? fmt::format("step {}{}", furthest->step, planned)
                                        : "before the first step");
}

}  // namespace lockstep
