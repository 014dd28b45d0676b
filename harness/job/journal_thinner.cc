#include "harness/job/journal_thinner.h"

#include <algorithm>

#include "harness/record/journal.h"
#include "harness/record/journal_segments.h"
#include "harness/record/sketch.h"
#include "reports/base/error.h"

namespace lockstep {

void JournalThinner::look(const RankFollower& follower, std::int64_t ahead) {
  if (has_failed_ || follower.diverged() || control_.keeps()) return;
  try {
    for (const auto& [rank, ended] : follower.ended_segments()) thin_one(rank, ended, follower);
    tell(follower, ahead);
  } catch (const Error&) {  // the ranks go on, and observe fewer steps once --history is used up
    has_failed_ = true;
  }
}

void JournalThinner::thin_one(int rank, const std::vector<std::int64_t>& ended,
                              const RankFollower& follower) {
  std::size_t& thinned = thinned_[rank];
  const std::size_t place = kFirstSegments + thinned;
  if (ended.size() <= place + kLastSegments || ended[place] > follower.agreed_step()) return;
  const auto keeps = [&](std::int64_t step) { return follower.is_landmark(step); };
  const int number = static_cast<int>(place) + 1;
  // In this order: rows without sketches would have no estimates.
  thin_journal(segment_file(journal_file(folder_, rank), number), keeps);
  thin_sketches(segment_file(sketch_file(folder_, rank), number), keeps);
  ++thinned;
}

/// Ranks with other tensors may have fewer segments: those of all ranks count.
void JournalThinner::tell(const RankFollower& follower, std::int64_t ahead) {
  if (thinned_.empty() || follower.first_step() < told_from_) return;
  const auto least =
      std::min_element(thinned_.begin(), thinned_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (least->second <= told_) return;
  told_from_ = follower.last_step() + ahead;
  told_ = least->second;
  control_.count_thinned_segments(told_from_, static_cast<std::int64_t>(told_));
}

}  // namespace lockstep
