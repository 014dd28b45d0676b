#include "harness/judge/values/finiteness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/record/compact_map.h"
#include "harness/record/shard_runs.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// How many elements of a tensor, or of the part of it, are not finite on a rank.
struct CountOfPart {
  struct Key {
    int rank;
    Interned<std::string> name;
    Interned<Shape> offset;

    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::uint64_t operator()(const Key& key) const {
      return mixed(static_cast<std::uint32_t>(key.rank), key.name.number(), key.offset.number());
    }
  };

  explicit CountOfPart(const Key& of) : part(of) {}
  const Key& key() const { return part; }

  Key part;
  std::int64_t count = 0;
};

class FinitenessFold : public ClaimFold {
 public:
  FinitenessFold(const CellEvidence& cell, const Claim& claim) : cell_(cell), claim_(claim) {
    finding_.claim = claim;
    finding_.kind = FindingKind::became_not_finite;
  }

  void see(const CellStep& step) override {
    std::int64_t& comparisons = seen_[step.actual.number()];
    for (int rank = 0; rank < step.actual.processes(); ++rank) {
      step.actual.for_each_row(rank, [&](const StepView::Row& row) {
        if (row.tensor->kind != claim_.kind || !row.tensor->not_comparable.empty()) return;
        if (see(rank, row)) ++comparisons;
      });
    }
    comparisons_ += comparisons;
    if (seen_.size() > kMostRemembered) seen_.erase(seen_.begin());
  }

  bool needs_values() const override { return false; }

  bool knows(std::int64_t like) const override { return seen_.contains(like); }

  void see_alike(std::int64_t, std::int64_t like) override { comparisons_ += seen_.at(like); }

  void write(ClaimResult& result) override {
    result.comparisons = comparisons_;
    if (finding_.places > 0) {
      result.verdict = Verdict::violated;
      result.findings.push_back(take());
      return;
    }
    result.verdict = comparisons_ > 0 ? Verdict::holds : Verdict::undecided;
    if (comparisons_ == 0) result.reason = "not triggered: nothing was compared";
  }

 private:
  /// Returns whether the value was compared with that before the step.
  bool see(int rank, const StepView::Row& now) {
    // A step without values is finite.
    const std::int64_t count = now.value ? now.value->statistics.non_finite : 0;
    const auto [known, is_new] =
        counts_.add(CountOfPart::Key{rank, now.tensor->name, now.tensor->offset});
    const std::int64_t before = std::exchange(known->count, count);
    const bool is_compared = concerns(claim_, *now.tensor) && !is_new;
    if (is_compared && count > before) note(rank, *now.value);
    return is_compared;
  }

  void note(int rank, const Observation& now) {
    if (finding_.places++ == 0) {
      finding_.step = now.step;
      finding_.tensor = now.name;
      non_finite_ = now.statistics.non_finite;
      elements_ = element_count(now.local_shape);
    }
    finding_.last_step = now.step;
    if (now.step != finding_.step) return;
    if (now.name == finding_.tensor) ranks_.push_back(rank);
    const auto known = std::find(finding_.tensors.begin(), finding_.tensors.end(), now.name);
    if (known == finding_.tensors.end()) finding_.tensors.push_back(now.name);
  }

  Finding take() {
    finding_.groups = {ranks_};
    finding_.birth = birth_in(*cell_.evidence, finding_.step);
    const std::size_t more = finding_.tensors.size() - 1;
    finding_.sentence =
        fmt::format("{} became not finite in step {}: {} on {} ({} of {} elements){}.",
                    plural(*claim_.kind), finding_.step, finding_.tensor, ranks_in_words(ranks_),
                    non_finite_, elements_, more > 0 ? fmt::format(", and {} more", more) : "");
    if (finding_.birth) {
      finding_.sentence += fmt::format(
          " First in that step: {}.", birth_in_words(*finding_.birth, cell_.evidence->processes()));
    }
    return std::move(finding_);
  }

  static constexpr std::size_t kMostRemembered = 64;  ///< sets of observed tensors rarely change

  const CellEvidence& cell_;
  Claim claim_;
  CompactMap<CountOfPart, CountOfPart::Hash> counts_;  ///< as last seen
  std::map<std::int64_t, std::int64_t> seen_;          ///< comparisons of the latest steps
  std::vector<int> ranks_;                             ///< of the finding
  std::int64_t non_finite_ = 0;  ///< elements of its tensor, on the first rank
  std::int64_t elements_ = 0;    ///< all of these
  std::int64_t comparisons_ = 0;
  Finding finding_;
};

using TensorOfStep = std::tuple<Kind, Phase, std::string, std::int64_t>;

TensorOfStep tensor_of(const Observation& row) {
  return {row.kind, row.phase, row.name, row.micro_batch};
}

/// The tensors of a step that are not finite on some rank.
std::set<TensorOfStep> non_finite_in(const StepView& step) {
  std::set<TensorOfStep> found;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.statistics.non_finite > 0) found.insert(tensor_of(row));
    }
  }
  return found;
}

/// The earliest row of all ranks that is not finite, by its place in the order of execution; null:
/// there is none. `old`: tensors to leave out.
const Observation* first_in(const StepView& step, const std::set<TensorOfStep>& old) {
  const Observation* first = nullptr;
  std::ptrdiff_t place_of_first = 0;
  for (int rank = 0; rank < step.processes(); ++rank) {
    const auto rows = step.observations(rank);
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const Observation& row) {
      return row.statistics.non_finite > 0 && !old.contains(tensor_of(row));
    });
    const std::ptrdiff_t place = found - rows.begin();
    if (found == rows.end() || (first && place >= place_of_first)) continue;
    first = &*found;
    place_of_first = place;
  }
  return first;
}

/// "module output".
std::string words_of(Kind kind) {
  std::string text(name(kind));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace

std::unique_ptr<ClaimFold> fold_finiteness(const CellEvidence& cell, const Claim& claim) {
  return std::make_unique<FinitenessFold>(cell, claim);
}

std::optional<NonFiniteBirth> birth_in(const StepReader& evidence, std::int64_t number) {
  const auto& steps = evidence.steps();
  const auto at = std::lower_bound(steps.begin(), steps.end(), number);
  if (at == steps.end() || *at != number) return std::nullopt;
  const auto old =
      at == steps.begin() ? std::set<TensorOfStep>() : non_finite_in(*evidence.at(*std::prev(at)));
  const auto step = evidence.at(number);
  const Observation* const first = first_in(*step, old);
  if (!first) return std::nullopt;
  NonFiniteBirth birth{first->kind, first->name};
  birth.non_finite = first->statistics.non_finite;
  birth.elements = element_count(first->local_shape);
  for (int rank = 0; rank < step->processes(); ++rank) {
    for (const Observation& row : step->observations(rank)) {
      if (tensor_of(row) != tensor_of(*first)) continue;
      (row.statistics.non_finite > 0 ? birth.ranks : birth.finite_ranks).push_back(rank);
    }
  }
  return birth;
}

std::string place_of_birth(const NonFiniteBirth& birth) {
  return fmt::format("the {} of {} on {} ({} of {} elements)", words_of(birth.kind), birth.tensor,
                     ranks_in_words(birth.ranks), birth.non_finite, birth.elements);
}

std::string birth_in_words(const NonFiniteBirth& birth, int processes) {
  std::string text = place_of_birth(birth);
  if (!birth.finite_ranks.empty()) {
    text += "; finite on " + ranks_in_words(birth.finite_ranks);
  } else if (birth.kind == Kind::gradient && processes > 1) {
    text += "; on all ranks alike, as a reduction leaves what one rank computed";
  }
  return text;
}

}  // namespace lockstep
