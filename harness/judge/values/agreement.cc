#include "harness/judge/values/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/gap.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/divergence.h"
#include "harness/judge/values/gradients_apart.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/judge/values/own_tensors.h"
#include "harness/judge/values/reduced_in_step.h"
#include "harness/judge/values/restored_start.h"
#include "harness/judge/values/rounding_drift.h"
#include "harness/judge/values/stray_ranks.h"
#include "harness/judge/values/uneven_steps.h"
#include "harness/judge/values/unshared_tensors.h"

namespace lockstep {

namespace {

/// A tensor without observations after some step agrees trivially, because a difference would go
/// unseen. Without a plan of the steps it may still be due again.
class LastSeen {
 public:
  explicit LastSeen(bool is_planned) : is_planned_(is_planned) {}

  /// Returns the record of the tensor's last observation.
  Gap* add(const HeldTensor& place) {
    Gap* const seen = &tensors_.add(HeldTensorKey(*place.tensor)).first->value;
    add(place.step, {seen});
    return seen;
  }

  void add(std::int64_t step, const std::vector<Gap*>& tensors) {
    if (!tensors.empty()) last_ = step;
    for (Gap* const seen : tensors) seen->note_observed(step);
  }

  /// The first by name, in words; empty if there is none.
  std::string first_abandoned() const {
    const OfHeldTensor<Gap>* first = nullptr;
    for (const OfHeldTensor<Gap>& one : tensors_) {
      if (is_abandoned(one.value) && (!first || one.tensor < first->tensor)) first = &one;
    }
    if (!first) return "";
    return fmt::format("no rank observed {} after step {} of {}", first->tensor.name,
                       first->value.last(), last_);
  }

  /// The last step of each, by name. None of those that ranks hold in another form now, such as
  /// other parts.
  std::map<std::string, std::int64_t> abandoned() const {
    std::map<std::string, std::int64_t> steps;
    for (const auto& [key, seen] : tensors_) {
      if (!is_abandoned(seen)) continue;
      std::int64_t& last = steps[key.name];
      last = std::max(last, seen.last());
    }
    if (steps.empty()) return steps;
    for (const auto& [key, seen] : tensors_) {
      if (!is_abandoned(seen)) steps.erase(key.name);
    }
    return steps;
  }

 private:
  bool is_abandoned(const Gap& seen) const {
    return seen.last() != last_ && (is_planned_ || seen.is_overdue(last_));
  }

  bool is_planned_;
  std::int64_t last_ = 0;
  ByHeldTensor<Gap> tensors_;
};

/// Why a tensor cannot be compared across ranks; empty if it can, or if there is nothing to
/// compare. `others`: tensors that are judged by what they are after the step.
std::string obstacle(const HeldTensor& place, const ExpectedHolders& holders,
                     const std::set<std::string>& others) {
  const ObservedTensor& any = *place.tensor;
  if (!holders.are_all_in(place)) {
    return holders.missing_in_words(place);
  }
  if (place.holders.size() < 2 || is_comparable(place) || is_undefined(any)) return "";
  if (others.contains(any.name)) return "";
  return incomparable_in_words(any, place.step);
}

/// The first step of each tensor. Ranks that differ observe their parameters before every step,
/// which says nothing about the start.
class FirstSteps {
 public:
  bool includes(const HeldTensor& place) {
    return steps_.emplace(place.tensor->name, place.step).first->second == place.step;
  }

 private:
  std::map<std::string, std::int64_t> steps_;  ///< by name
};

std::set<std::string> names_in(const std::vector<const HeldTensor*>& places) {
  std::set<std::string> names;
  for (const HeldTensor* place : places) names.insert(place->tensor->name);
  return names;
}

/// Of parameters that differ by no more than rounding.
constexpr const char* kEqualGradients =
    " That is as little as rounding, but the gradients had the same bits up to then.";

/// The claim that shows which tensors ranks step: parameters before the first step do not.
Claim claim_of_steps(const Claim& claim) {
  return is_about_the_start(claim) ? agree_across_ranks(Kind::parameter, Phase::post_step) : claim;
}

class AgreementFold : public ClaimFold {
 public:
  AgreementFold(const CellEvidence& cell, const Claim& claim)
      : cell_(cell),
        claim_(claim),
        unshared_(cell.unshared),
        holders_(cell, claim),
        of_start_(cell, agree_across_ranks(Kind::parameter, Phase::pre_forward)),
        first_open_(first_open_step(cell)),
        divergence_(claim),
        rounding_(cell.world_size),
        strays_(cell, claim_of_steps(claim)),
        may_stray_(cell.is_job),
        may_round_(cell.is_job && !cell.settings_differ && !is_about_the_start(claim)),
        last_seen_(cell.steps.has_value()),
        may_end_(cell.is_job && !cell.steps && !is_about_the_start(claim)),
        are_updates_(cell.is_job && claim == agree_across_ranks(Kind::parameter, Phase::post_step)),
        silent_rank_(cell.is_job ? holders_.first_silent_rank(cell) : "") {
    if (cell.is_job && is_about_the_start(claim)) begins_.emplace();
    if (may_round_ && claim.kind == Kind::parameter) {
      gradients_.emplace(unshared_, cell.world_size);
    }
    if (cell.is_job && claim.kind == Kind::gradient) reduced_.emplace(cell);
    if (cell.is_job && !are_updates_) after_step_ = compared_after_step(*cell.evidence);
  }

  void see(const CellStep& step) override {
    if (seen_.size() == kMostRemembered) seen_.erase(seen_.begin());
    Seen& seen = seen_[step.actual.number()];
    std::vector<const HeldTensor*> compared, differing;
    HeldTensors places = held_tensors(step.actual, claim_, unshared_);
    see_strays(step.actual, places);
    note_summands(places);
    for (HeldTensor& place : places) {
      if (begins_ && !begins_->includes(place)) continue;
      if (place.step < first_open_) note_presence(step.actual, place, seen);
      if (!is_compared(place)) continue;
      strays_.leave_out(place);
      if (place.holders.size() < 2) continue;
      compared.push_back(&place);
      if (note_if_apart(step.actual, place)) differing.push_back(&place);
    }
    end_step(step.actual, compared, differing);
    seen.comparisons += static_cast<std::int64_t>(compared.size());
    comparisons_ += seen.comparisons;
  }

  bool needs_values() const override { return false; }

  bool knows(std::int64_t like) const override { return seen_.contains(like); }

  void see_alike(std::int64_t step, std::int64_t like) override {
    const Seen& seen = seen_.at(like);
    if (step < first_open_) last_seen_.add(step, seen.tensors);
    comparisons_ += seen.comparisons;
  }

  void write(ClaimResult& result) override {
    result.comparisons = comparisons_;
    const bool is_small =
        may_round_ && rounding_.is_established(gradients_ && gradients_->are_rounding());
    const bool is_rounding = is_small && !(gradients_ && gradients_->is_ruled_out());
    const bool is_restored =
        begins_ && restored_.includes_all(static_cast<std::size_t>(comparisons_));
    const auto is_rounded = [&](const HeldTensorKey& tensor) {
      return is_restored || (is_rounding && !rounding_.is_beyond(tensor.name));
    };
    const auto is_explained = [&](const HeldTensorKey& tensor) {
      return is_rounded(tensor) || (reduced_ && reduced_->includes(tensor));
    };
    if (auto finding = finding_without(is_explained)) {
      result.verdict = Verdict::violated;
      finding->sentence += context_of(*finding, is_small && !is_rounding);
      result.findings.push_back(std::move(*finding));
      return;
    }
    if (reduced_) result.reduced_in_step = reduced_->count(is_rounded);
    result.reason = why_undecided(is_rounding, is_rounded);
    if (!result.reason.empty()) return;
    result.verdict = comparisons_ > 0 ? Verdict::holds : Verdict::undecided;
    if (comparisons_ == 0) result.reason = "not triggered: nothing was compared";
    if (is_rounding) rounding_.write(result);
    if (is_restored) restored_.write(result);
  }

  std::map<std::string, std::int64_t> ended() const override {
    return may_end_ ? last_seen_.abandoned() : std::map<std::string, std::int64_t>();
  }

 private:
  /// Contribution of a step equal to this one.
  struct Seen {
    std::int64_t comparisons = 0;
    std::vector<Gap*> tensors;  ///< their records in `last_seen_`
  };
  static constexpr std::size_t kMostRemembered = 64;  ///< sets of observed tensors rarely change

  /// `places`: of the claim.
  void see_strays(const StepView& step, const HeldTensors& places) {
    if (!is_about_the_start(claim_)) return strays_.see(step.number(), places);
    // A rank that strays observes new parameters first.
    if (!may_stray_) return;
    strays_.see(step.number(), held_tensors(step, claim_of_steps(claim_), unshared_));
  }

  void note_summands(const HeldTensors& places) {
    if (!reduced_) return;
    for (const HeldTensor& place : places) {
      if (place.tensor->is_summand) reduced_->note_summand(place);
    }
  }

  /// Notes which ranks hold a tensor in a step that all ranks observe.
  void note_presence(const StepView& step, const HeldTensor& place, Seen& seen) {
    seen.tensors.push_back(last_seen_.add(place));
    // A rank that never steps a parameter has observed it before its first step.
    const bool is_uneven = are_updates_ && !holders_.are_all_in(place) &&
                           (holders_.were_ever_all_in(place) || of_start_.were_ever_all_in(place));
    if (is_uneven) uneven_.see(place, step);
    if (may_stray_ && holders_.is_of_one_rank(place)) {
      if (lone_.size() < kMostLone) lone_.insert(place.tensor->name);
      return;
    }
    if (reason_.empty()) reason_ = obstacle(place, holders_, after_step_);
  }

  /// Whether ranks differ in a tensor.
  bool note_if_apart(const StepView& step, const HeldTensor& place) {
    const auto groups = groups_of(place);
    if (groups.size() < 2) return false;
    divergence_.add(step, place, groups);
    differing_.insert(HeldTensorKey(*place.tensor));
    if (may_round_) rounding_.add(step, holders_of(place, groups));
    if (begins_) restored_.add(step, holders_of(place, groups));
    return true;
  }

  void end_step(const StepView& step, const std::vector<const HeldTensor*>& compared,
                const std::vector<const HeldTensor*>& differing) {
    if (!differing.empty()) apart_.push_back(step.number());
    divergence_.note_compared(step.number(), compared);
    if (may_round_ && !differing.empty()) rounding_.end_step(step.number(), compared);
    if (gradients_ && step.has_values()) gradients_->see(step, names_in(differing));
    if (reduced_) reduced_->see(step, differing);
  }

  /// What a finding's sentence lacks.
  std::string context_of(const Finding& finding, bool has_equal_gradients) const {
    std::string context = has_equal_gradients ? kEqualGradients : "";
    if (uneven_.is_before(finding.step)) {
      context += fmt::format(" Before that, {}.", uneven_.in_words());
    }
    const std::int64_t summand = reduced_ ? reduced_->last_summand(finding.tensors.front()) : 0;
    if (summand > 0) {
      context += fmt::format(
          " In step {} each rank held a summand of it, which the optimizer added up; now the ranks "
          "say that they hold the whole.",
          summand);
    }
    return context;
  }

  /// Empty if nothing prevents a verdict.
  std::string why_undecided(bool is_rounding,
                            const std::function<bool(const HeldTensorKey&)>& is_rounded) const {
    std::string reason = reason_;
    if (reason.empty() && !lone_.empty()) reason = lone_in_words(lone_);
    if (reduced_ && reason.empty()) reason = reduced_->unknown_in_words(is_rounded);
    if (is_rounding && reason.empty()) reason = rounding_.open_in_words();
    if (!uneven_.in_words().empty()) reason = uneven_.in_words();
    const bool strays_matter = !is_about_the_start(claim_) || !reason.empty();
    if (strays_matter && !strays_.in_words().empty()) reason = strays_.in_words();
    if (reason.empty()) reason = silent_rank_;
    if (!reason.empty()) return reason;
    if (is_about_the_start(claim_)) return unshared_in_words(cell_);
    return may_end_ ? "" : last_seen_.first_abandoned();
  }

  /// After ranks have left, the remaining ones are compared.
  bool is_compared(const HeldTensor& place) const {
    const bool is_left = place.step >= first_open_ && holders_.were_ever_all_in(place);
    return (is_left || holders_.may_be_compared(place)) && place.holders.size() > 1 &&
           is_comparable(place);
  }

  /// The finding about tensors that differ without an explanation; empty: there are none.
  std::optional<Finding> finding_without(
      const std::function<bool(const HeldTensorKey&)>& is_explained) {
    if (divergence_.is_empty()) return std::nullopt;
    const std::size_t explained = std::count_if(differing_.begin(), differing_.end(), is_explained);
    if (explained == differing_.size()) return std::nullopt;
    return explained == 0 ? divergence_.take() : finding_again(is_explained);
  }

  /// The same if some are explained: reads the steps in which ranks differ again.
  Finding finding_again(const std::function<bool(const HeldTensorKey&)>& is_explained) {
    Divergence rest(claim_);
    for (const std::int64_t number : apart_) {
      const auto step = cell_.evidence->at(number);
      HeldTensors places = held_tensors(*step, claim_, unshared_);
      std::vector<const HeldTensor*> compared;
      for (HeldTensor& place : places) {
        if (!is_compared(place)) continue;
        strays_.leave_out(place);
        if (place.holders.empty()) continue;
        compared.push_back(&place);
        if (is_explained(HeldTensorKey(*place.tensor))) continue;
        const auto groups = groups_of(place);
        if (groups.size() > 1) rest.add(*step, place, groups);
      }
      rest.note_compared(number, compared);
    }
    return rest.take();
  }

  const CellEvidence& cell_;
  Claim claim_;
  const std::set<std::string>& unshared_;
  ExpectedHolders holders_;
  ExpectedHolders of_start_;
  std::int64_t first_open_;  ///< from this step on a tensor may be missing
  Divergence divergence_;
  std::set<HeldTensorKey> differing_;  ///< in any step
  std::vector<std::int64_t> apart_;    ///< steps in which some differ
  RoundingDrift rounding_;
  StrayRanks strays_;
  bool may_stray_;
  bool may_round_;
  std::optional<GradientsApart> gradients_;  ///< of a claim about parameters that may round
  std::optional<ReducedInStep> reduced_;     ///< of a claim about gradients of a job
  std::optional<FirstSteps> begins_;         ///< of a claim about the start of a job
  RestoredStart restored_;                   ///< of the same
  LastSeen last_seen_;
  bool may_end_;                       ///< all ranks may stop to train a tensor, in the same step
  std::map<std::int64_t, Seen> seen_;  ///< the latest steps
  std::int64_t comparisons_ = 0;
  bool are_updates_;  ///< of a job: what its optimizers step
  UnevenSteps uneven_;
  std::set<std::string> after_step_;  ///< of a job: what is compared after the step
  std::string reason_;                ///< the first obstacle
  static constexpr std::size_t kMostLone = 4096;
  std::set<std::string> lone_;  ///< names of tensors that one rank alone ever held
  std::string silent_rank_;     ///< a rank without observations, in words
};

}  // namespace

std::unique_ptr<ClaimFold> fold_agreement(const CellEvidence& cell, const Claim& claim) {
  return std::make_unique<AgreementFold>(cell, claim);
}

}  // namespace lockstep
