#include "harness/judge/values/held_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// The criteria of `is_same_value` as a key, so that thousands of ranks can be grouped.
using ValueKey = std::tuple<Digest, Interned<std::string>, Interned<Shape>, Interned<std::string>>;

}  // namespace

HeldTensorKey::HeldTensorKey(const ObservedTensor& tensor)
    : name(tensor.name), replica_group(tensor.replica_group) {
  if (tensor.local_shape == tensor.global_shape) return;
  offset = tensor.offset;
  local_shape = tensor.local_shape;
}

std::uint64_t HeldTensorKey::Hash::operator()(const HeldTensorKey& key) const {
  return mixed(mixed(0, key.name.number(), key.replica_group.number()), key.offset.number(),
               key.local_shape.number());
}

void HolderRows::add(int rank, const Observation* row) {
  if (!rows_.empty() && rows_.back().first == rank) rows_.pop_back();
  rows_.emplace_back(rank, row);
}

void HolderRows::erase(int rank) {
  const auto found = find(rank);
  if (found != rows_.end()) rows_.erase(found);
}

std::vector<HolderRows::Row>::const_iterator HolderRows::find(int rank) const {
  const auto found = std::ranges::lower_bound(rows_, rank, {}, &Row::first);
  return found != rows_.end() && found->first == rank ? found : rows_.end();
}

void HeldTensor::add(int rank, const StepView::Row& row) {
  if (holders.empty()) seq = row.seq;
  holders.add(rank, row.value);
  if (holders.size() == 1) tensor = row.tensor;  // that of the later one of two rows, too
}

void HeldTensor::leave_out(int rank) {
  holders.erase(rank);
  // Without values, tensors of one key are the same on all ranks.
  if (!holders.empty() && holders.front().second) tensor = holders.front().second;
}

namespace {

/// What is held in a micro-batch, as an entry of the map by which rows are put together.
struct HeldInStep {
  struct Key {
    std::int64_t micro_batch;
    const ObservedTensor* tensor;

    /// A key of less memory, made when it is needed.
    auto place() const { return std::pair(micro_batch, HeldTensorKey(*tensor)); }
    bool operator==(const Key& other) const { return place() == other.place(); }
  };
  struct Hash {
    std::uint64_t operator()(const Key& key) const {
      return HeldTensorKey::Hash()(HeldTensorKey(*key.tensor)) ^
             static_cast<std::uint64_t>(key.micro_batch);
    }
  };

  explicit HeldInStep(const Key& of) {
    held.micro_batch = of.micro_batch;
    held.tensor = of.tensor;
  }
  Key key() const { return {held.micro_batch, held.tensor}; }

  HeldTensor held;
};

}  // namespace

HeldTensors held_tensors(const StepView& step, const Claim& claim,
                         const std::set<std::string>& unshared) {
  CompactMap<HeldInStep, HeldInStep::Hash> places;
  for (int rank = 0; rank < step.processes(); ++rank) {
    step.for_each_row(rank, [&](const StepView::Row& row) {
      if (!concerns(claim, *row.tensor) || unshared.contains(row.tensor->name)) return;
      HeldTensor& held = places.add(HeldInStep::Key{row.micro_batch, row.tensor}).first->held;
      held.step = step.number();
      held.add(rank, row);
    });
  }
  HeldTensors ordered;
  for (std::deque<HeldInStep> all = std::move(places).take(); !all.empty(); all.pop_front()) {
    ordered.push_back(std::move(all.front().held));
  }
  std::ranges::sort(ordered, [](const HeldTensor& a, const HeldTensor& b) {
    if (a.seq != b.seq) return a.seq < b.seq;
    return HeldInStep::Key{a.micro_batch, a.tensor}.place() <
           HeldInStep::Key{b.micro_batch, b.tensor}.place();
  });
  return ordered;
}

std::vector<std::vector<int>> groups_of(const HeldTensor& place) {
  const bool has_values = !place.holders.empty() && place.holders.front().second;
  return groups_of(place.holders, [&](const Observation* one) {
    return has_values ? ValueKey{one->digest, one->dtype, one->global_shape, one->not_comparable}
                      : ValueKey();  // known to be equal
  });
}

namespace {

bool has_copies(const ObservedTensor& tensor, std::span<const int> ranks) {
  return tensor.not_comparable.empty() && ranks.size() > 1;
}

/// Whether tensors of the claim were observed, and none of them can be compared.
bool is_incomparable(const Claim& claim, const StepReader& evidence) {
  bool is_observed = false;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (!concerns(claim, tensor) || is_undefined(tensor)) continue;
    if (has_copies(tensor, ranks)) return false;
    is_observed = is_observed || tensor.is_summand || !tensor.not_comparable.empty();
  }
  return is_observed;
}

}  // namespace

std::set<std::string> compared_after_step(const StepReader& evidence) {
  const Claim claim = agree_across_ranks(Kind::parameter, Phase::post_step);
  std::set<std::string> names;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (concerns(claim, tensor) && has_copies(tensor, ranks)) names.insert(tensor.name);
  }
  return names;
}

std::vector<Claim> without_incomparable(std::vector<Claim> claims, const StepReader& evidence) {
  if (compared_after_step(evidence).empty()) return claims;
  std::erase_if(claims, [&](const Claim& claim) {
    return is_about_agreement(claim) && is_incomparable(claim, evidence);
  });
  return claims;
}

bool is_comparable(const HeldTensor& place) {
  return std::any_of(
      place.holders.begin(), place.holders.end(), [&](const HolderRows::Row& holder) {
        const ObservedTensor& tensor = holder.second ? *holder.second : *place.tensor;
        return tensor.not_comparable.empty();
      });
}

namespace {

/// Adds the ranks of a tensor to those of others with its key.
class RanksOfHeld {
 public:
  void add(const HeldTensorKey& key, std::span<const int> ranks) {
    const auto [held, is_new] = ranks_.add(key);
    if (!is_new) {
      std::vector<int>& all = joined_.emplace_back();
      std::ranges::set_union(held->value, ranks, std::back_inserter(all));
      ranks = all;
    }
    held->value = ranks;
  }

  auto begin() const { return ranks_.begin(); }
  auto end() const { return ranks_.end(); }

 private:
  ByHeldTensor<std::span<const int>> ranks_;
  std::deque<std::vector<int>> joined_;
};

}  // namespace

ExpectedHolders::ExpectedHolders(const CellEvidence& cell, const Claim& claim)
    : cell_(cell),
      kind_(*claim.kind),
      processes_(cell.evidence->processes()),
      training_(static_cast<std::size_t>(processes_) - cell.bystanders.size()) {
  RanksOfHeld held;
  for (const auto& [tensor, ranks] : cell.evidence->tensors()) {
    if (!concerns(claim, tensor)) continue;
    held.add(HeldTensorKey(tensor), ranks);
    observing_.insert(ranks.begin(), ranks.end());
  }
  for (const auto& one : held) {
    const bool is_lone_shard =
        one.value.size() == 1 && !(one.tensor.replica_group.empty() && one.tensor.offset.empty());
    if (is_lone_shard) continue;
    counts_.add(one.tensor).first->value = static_cast<std::uint32_t>(one.value.size());
  }
}

std::size_t ExpectedHolders::expected_of(const ObservedTensor& tensor) const {
  if (is_everywhere(tensor)) return training_;
  const auto* const found = counts_.find(HeldTensorKey(tensor));
  return found ? found->value : 1;
}

bool ExpectedHolders::is_everywhere(const ObservedTensor& tensor) const {
  return tensor.replica_group.empty() && tensor.local_shape == tensor.global_shape &&
         !cell_.own.contains(tensor.name);
}

bool ExpectedHolders::is_bystander(int rank) const {
  return std::ranges::binary_search(cell_.bystanders, rank);
}

bool ExpectedHolders::is_of_one_rank(const HeldTensor& place) const {
  if (place.holders.size() != 1 || training_ == 1 || !is_everywhere(*place.tensor)) return false;
  const auto* const found = counts_.find(HeldTensorKey(*place.tensor));
  return found && found->value == 1 && observing_.size() == training_;
}

bool ExpectedHolders::are_all_in(const HeldTensor& place) const {
  const std::size_t present = place.holders.size();
  return present == expected_of(*place.tensor) ||
         (is_everywhere(*place.tensor) && present + joined_without(place) == training_) ||
         is_of_joined_ranks(place);
}

/// After the last step of others, in which these may leave out an optimizer.
bool ExpectedHolders::is_of_joined_ranks(const HeldTensor& place) const {
  return !cell_.joined.empty() && std::ranges::all_of(place.holders, [&](const auto& holder) {
    return has_joined(cell_.joined, holder.first, place.step);
  });
}

/// The ranks that had joined, and do not hold it.
std::size_t ExpectedHolders::joined_without(const HeldTensor& place) const {
  if (cell_.joined.empty()) return 0;
  std::size_t count = 0;
  for (int rank = 0; rank < processes_; ++rank) {
    const bool is_absent = !place.holders.contains(rank);
    if (is_absent && has_joined(cell_.joined, rank, place.step)) ++count;
  }
  return count;
}

std::string ExpectedHolders::missing_in_words(const HeldTensor& place) const {
  std::vector<int> missing;
  for (int rank = 0; rank < processes_ && is_everywhere(*place.tensor); ++rank) {
    const bool is_expected = !is_bystander(rank) && !has_joined(cell_.joined, rank, place.step);
    if (is_expected && !place.holders.contains(rank)) missing.push_back(rank);
  }
  const bool have_ever =
      std::ranges::any_of(missing, [this](int rank) { return observing_.contains(rank); });
  if (!missing.empty() && !have_ever) {
    return fmt::format("{} observed none of the {}", ranks_in_words(missing), plural(kind_));
  }
  return fmt::format("{} in step {} was not observed on {}", place.tensor->name, place.step,
                     missing.empty() ? "every rank of its group" : ranks_in_words(missing));
}

bool ExpectedHolders::may_be_compared(const HeldTensor& place) const {
  return !is_everywhere(*place.tensor) || are_all_in(place);
}

bool ExpectedHolders::were_ever_all_in(const HeldTensor& place) const {
  if (!is_everywhere(*place.tensor)) return true;
  const auto* const found = counts_.find(HeldTensorKey(*place.tensor));
  return found && found->value == observing_.size();
}

std::string ExpectedHolders::first_silent_rank(const CellEvidence& cell) const {
  for (const RankExit& end : cell.exits) {
    const bool has_trained = end.kind == ExitKind::finished || end.step > 0;
    if (!has_trained || observing_.contains(end.rank) || is_bystander(end.rank)) continue;
    return fmt::format("rank {} observed none of the {}", end.rank, plural(kind_));
  }
  return "";
}

}  // namespace lockstep
