#include "harness/job/rank_follower.h"

#include <algorithm>

#include "harness/job/rank_facts.h"
#include "harness/record/journal.h"
#include "harness/record/list_digest.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

/// Whether two ranks have observed the same tensors of a step so far. With rows of their own, which
/// come first and differ by the number of the rank, as many.
bool is_alike(const IndexedStep& a, int rank_of_a, const IndexedStep& b, int rank_of_b) {
  if (a.step != b.step) return false;
  if (a.summary.tensors == b.summary.tensors) return true;
  const StepSummary::Phases none;
  return a.summary.rows == b.summary.rows && a.summary.groups.size() == b.summary.groups.size() &&
         own_rows_of(rank_of_a, a.summary) != none && own_rows_of(rank_of_b, b.summary) != none;
}

}  // namespace

void RankFollower::find_ranks() {
  if (world_size_ > 0 && ranks() == world_size_) return;
  for (const int rank : ranks_with_facts(folder_)) {
    if (ranks_.contains(rank)) continue;
    const auto facts = read_rank_facts(folder_, rank);
    if (!facts) continue;
    world_size_ = std::max(world_size_, facts->world_size);
    ended_segments_[rank];  // none yet
    ranks_.emplace(rank, Rank{StepIndexReader(index_file(journal_file(folder_, rank)))});
  }
}

/// A step is complete once the same rank has begun the next one; the values of its last entry
/// count.
void RankFollower::add(int rank, const IndexedStep& step) {
  Open& open = open_[step.step];
  ++open.ranks;
  compare(step, open.groups);
  ListDigest tensors;
  tensors.add(static_cast<std::uint64_t>(rank));
  tensors.add(step.summary.tensors);
  open.tensors += tensors.digest();
  open.non_finite += step.summary.non_finite;
  if (open.ranks < world_size_) return;
  note_landmark(step.step, open);
  open_.erase(step.step);
}

void RankFollower::note_landmark(std::int64_t step, const Open& open) {
  constexpr std::int64_t kDistance = 100;   // in observed steps
  constexpr std::size_t kMostKinds = 1000;  // a job that changes its tensors in every step
  constexpr std::int64_t kMostChanges = 1000;
  const bool is_regular = ended_steps_ % kDistance == 0;
  const bool is_new = kinds_.size() < kMostKinds && kinds_.insert(open.tensors).second;
  const bool is_changed = open.non_finite != non_finite_;
  if (is_changed) ++changes_;
  non_finite_ = open.non_finite;
  ++ended_steps_;
  if (is_regular || is_new || (is_changed && changes_ <= kMostChanges)) landmarks_.insert(step);
}

void RankFollower::compare(const IndexedStep& step, std::map<Digest, StepSummary::Phases>& groups) {
  for (const auto& [group, phases] : step.summary.groups) {
    const auto [known, is_new] = groups.emplace(group, phases);
    if (is_new || known->second == phases) continue;
    if (!diverged_ || step.step < *diverged_) diverged_ = step.step;
  }
}

/// Ranks that have observed the same tensors of a step so far can be compared before its end.
void RankFollower::compare_begun() {
  if (ranks_.empty() || ranks() < world_size_) return;
  const int first_rank = ranks_.begin()->first;
  const IndexedStep* const first = ranks_.begin()->second.index.begun();
  for (const auto& [rank, state] : ranks_) {
    const IndexedStep* const begun = state.index.begun();
    if (!first || !begun || !is_alike(*first, first_rank, *begun, rank)) return;
  }
  std::map<Digest, StepSummary::Phases> groups;
  for (const auto& [rank, state] : ranks_) compare(*state.index.begun(), groups);
}

void RankFollower::look() {
  try {
    find_ranks();
    for (auto& [rank, state] : ranks_) {
      for (const IndexedStep& step : state.index.completed()) {
        // Each segment begins at the same place.
        if (state.step > 0 && step.offset <= state.offset) {
          ended_segments_[rank].push_back(state.step);
        }
        state.offset = step.offset;
        state.step = step.step;
        add(rank, step);
      }
    }
    compare_begun();
  } catch (const Error&) {
    // The report reads the files again, and says what is wrong with them.
  }
}

std::int64_t RankFollower::first_step() const {
  if (ranks_.empty() || ranks() < world_size_) return 0;
  return std::min_element(
             ranks_.begin(), ranks_.end(),
             [](const auto& a, const auto& b) { return a.second.step < b.second.step; })
      ->second.step;
}

std::int64_t RankFollower::agreed_step() const {
  const std::int64_t last = diverged_ ? std::min(first_step(), *diverged_ - 1) : first_step();
  return open_.empty() ? last : std::min(last, open_.begin()->first - 1);
}

std::int64_t RankFollower::last_step() const {
  std::int64_t last = 0;
  for (const auto& [rank, state] : ranks_) last = std::max(last, state.step);
  return last;
}

}  // namespace lockstep
