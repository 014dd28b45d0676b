#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "harness/record/step_index.h"

namespace lockstep {

/// Follows the ranks of a running job through the indices of their journals, without reading a row:
/// how far they are, and in which step they first differed.
class RankFollower {
 public:
  explicit RankFollower(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Reads what the ranks have written since the last call. Files that cannot be read yet are left
  /// for the next call.
  void look();

  int ranks() const { return static_cast<int>(ranks_.size()); }  ///< that have begun to train
  int world_size() const { return world_size_; }                 ///< 0: unknown yet
  std::int64_t first_step() const;  ///< the last step that every rank has ended; 0: none
  std::int64_t last_step() const;   ///< the last step that any rank has ended
  /// The first step in which ranks of a replica group were seen to differ; absent: none.
  std::optional<std::int64_t> diverged() const { return diverged_; }

  /// Whether the number of elements that are not finite has changed since the first step.
  bool has_new_non_finite() const { return changes_ > 0; }

  /// The last step up to which all ranks have observed the same steps and agreed in them; 0: none.
  std::int64_t agreed_step() const;
  /// Whether a report needs the rows of a step before that: it is one of 100, or the first with its
  /// tensors, or another number of its elements is not finite than in the step before.
  bool is_landmark(std::int64_t step) const { return landmarks_.contains(step); }
  /// The last steps of the segments that each rank's journal has ended, in their order.
  const std::map<int, std::vector<std::int64_t>>& ended_segments() const { return ended_segments_; }

 private:
  struct Rank {
    StepIndexReader index;
    std::int64_t step = 0;
    std::uint64_t offset = 0;  ///< of its rows
  };
  /// What the ranks before have shown of a step that not all have ended.
  struct Open {
    int ranks = 0;
    std::map<Digest, StepSummary::Phases> groups;
    Digest tensors;               ///< of all of them
    std::int64_t non_finite = 0;  ///< elements
  };

  void find_ranks();
  void add(int rank, const IndexedStep& step);
  void note_landmark(std::int64_t step, const Open& open);
  void compare(const IndexedStep& step, std::map<Digest, StepSummary::Phases>& groups);
  void compare_begun();

  std::filesystem::path folder_;
  int world_size_ = 0;
  std::map<int, Rank> ranks_;
  std::map<int, std::vector<std::int64_t>> ended_segments_;  ///< by rank
  std::map<std::int64_t, Open> open_;
  std::optional<std::int64_t> diverged_;
  std::int64_t ended_steps_ = 0;  ///< on all ranks
  std::set<std::int64_t> landmarks_;
  std::set<Digest> kinds_;       ///< of steps, by their tensors
  std::int64_t non_finite_ = 0;  ///< elements, in the step that all ranks have ended last
  std::int64_t changes_ = 0;     ///< of that number
};

}  // namespace lockstep
