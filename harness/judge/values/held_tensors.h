#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_view.h"
#include "harness/record/compact_map.h"
#include "harness/record/observation.h"
#include "reports/record/claim.h"

namespace lockstep {

/// Identifies data that must be equal on all its ranks: one tensor, or one shard of it. A shard
/// with a different shape is another shard; a whole tensor with a different shape is a difference.
struct HeldTensorKey {
  Interned<std::string> name;
  Interned<std::string> replica_group;
  Interned<Shape> offset;
  Interned<Shape> local_shape;

  explicit HeldTensorKey(const ObservedTensor& tensor);

  auto operator<=>(const HeldTensorKey&) const = default;
  bool operator==(const HeldTensorKey&) const = default;

  struct Hash {
    std::uint64_t operator()(const HeldTensorKey& key) const;
  };
};

/// Data by what is held, for millions of shards.
template <class Value>
struct OfHeldTensor {
  explicit OfHeldTensor(const HeldTensorKey& held) : tensor(held) {}
  const HeldTensorKey& key() const { return tensor; }

  HeldTensorKey tensor;
  Value value = {};
};
template <class Value>
using ByHeldTensor = CompactMap<OfHeldTensor<Value>, HeldTensorKey::Hash>;

/// The ranks that hold a tensor, ascending, each with its row. The rows are null in a step without
/// values.
class HolderRows {
 public:
  using Row = std::pair<int, const Observation*>;

  /// Ranks ascend. Of two rows of a rank the later one counts.
  void add(int rank, const Observation* row);
  void erase(int rank);

  bool contains(int rank) const { return find(rank) != rows_.end(); }
  const Observation* at(int rank) const { return find(rank)->second; }  ///< requires: it holds it
  const Row& front() const { return rows_.front(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }

 private:
  std::vector<Row>::const_iterator find(int rank) const;

  std::vector<Row> rows_;
};

/// A tensor in one micro-batch of a step.
struct HeldTensor {
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
  std::int64_t seq = 0;                    ///< on its lowest rank: execution order
  const ObservedTensor* tensor = nullptr;  ///< that of its lowest rank
  HolderRows holders;

  void add(int rank, const StepView::Row& row);
  void leave_out(int rank);
};

using HeldTensors = std::deque<HeldTensor>;

/// The tensors of a claim that the ranks hold in a step, in the order of execution. `unshared`:
/// names to leave out.
HeldTensors held_tensors(const StepView& step, const Claim& claim,
                         const std::set<std::string>& unshared);

/// Ranks with the same value, by lowest rank. `rows`: pairs of a rank and data with a value.
template <class Rows, class ValueOf>
std::vector<std::vector<int>> groups_of(const Rows& rows, const ValueOf& value_of) {
  std::vector<std::vector<int>> groups;
  std::map<decltype(value_of(rows.begin()->second)), std::size_t> known;
  for (const auto& [rank, data] : rows) {
    const auto [found, is_new] = known.emplace(value_of(data), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(rank);
  }
  return groups;
}

template <class Value>
std::vector<std::vector<int>> groups_of(const std::map<int, Value>& values) {
  return groups_of(values, [](const Value& value) { return value; });
}

std::vector<std::vector<int>> groups_of(const HeldTensor& place);

/// Names of the parameters that ranks hold copies of, and can compare after the step. One moment of
/// such a parameter may lack values, such as a gradient that is a sum over ranks.
std::set<std::string> compared_after_step(const StepReader& evidence);

/// The claims that can be judged by what was observed: without those about a moment in which no
/// tensor can be compared, if the parameters can be after the step.
std::vector<Claim> without_incomparable(std::vector<Claim> claims, const StepReader& evidence);

/// Whether any rank has a value to compare.
bool is_comparable(const HeldTensor& place);

/// The expected holders of a tensor: every rank that trains the step. For a shard or replica group,
/// the ranks that held it in any step. The cell outlives this.
class ExpectedHolders {
 public:
  ExpectedHolders(const CellEvidence& cell, const Claim& claim);

  bool are_all_in(const HeldTensor& place) const;

  /// Requires: they are not. "w in step 7 was not observed on rank 1"; of ranks that never observed
  /// any tensor of the claim "rank 2 observed none of the parameters".
  std::string missing_in_words(const HeldTensor& place) const;

  /// Whether one rank alone ever held a tensor of all ranks, of which each observes others.
  bool is_of_one_rank(const HeldTensor& place) const;

  /// A tensor of all ranks is compared only after all have observed it. Shards and replica groups
  /// are compared between their holders.
  bool may_be_compared(const HeldTensor& place) const;

  /// Whether all observing ranks ever held a tensor of all ranks. If not, each pipeline stage may
  /// have its own tensor of this name.
  bool were_ever_all_in(const HeldTensor& place) const;

  /// A rank that trained without observing any tensor of the claim, in words; empty if there is
  /// none. Replica groups do not expect it.
  std::string first_silent_rank(const CellEvidence& cell) const;

 private:
  bool is_everywhere(const ObservedTensor& tensor) const;
  bool is_bystander(int rank) const;
  std::size_t expected_of(const ObservedTensor& tensor) const;
  std::size_t joined_without(const HeldTensor& place) const;
  bool is_of_joined_ranks(const HeldTensor& place) const;

  const CellEvidence& cell_;
  Kind kind_;
  /// How many ranks held it in any step. Without shards that one rank held: there may be millions.
  ByHeldTensor<std::uint32_t> counts_;
  int processes_;
  std::size_t training_;     ///< how many of them are no bystanders
  std::set<int> observing_;  ///< ranks with an observation for the claim
};

}  // namespace lockstep
