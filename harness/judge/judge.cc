#include "harness/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "harness/judge/collectives/collectives.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/claim_fold.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/rank_exits.h"
#include "harness/judge/step_coverage.h"
#include "harness/judge/values/agreement.h"
#include "harness/judge/values/distinctness.h"
#include "harness/judge/values/equality.h"
#include "harness/judge/values/finiteness.h"
#include "harness/judge/values/memory_limit.h"
#include "harness/judge/values/periodic_agreement.h"
#include "harness/judge/values/reference_run.h"
#include "harness/judge/values/reference_stability.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// A healthy run of other code says nothing about the variant.
void require_trigger(const CellEvidence& cell, ClaimResult& result) {
  if (result.verdict != Verdict::holds || is_triggered(cell.exits)) return;
  result.verdict = Verdict::undecided;
  result.reason = "not triggered: no rank reached the branch point";
}

/// Whether `rank` has no value for the finding: it did not get that far, or its snapshot is
/// missing.
bool lacks_value(const StepView& step, int rank, const Finding& finding) {
  const auto seen = step.observations(rank);
  return std::none_of(seen.begin(), seen.end(), [&](const Observation& one) {
    return one.name == finding.tensor && concerns(finding.claim, one) &&
           (!one.not_comparable.empty() || step.kept(rank, one));
  });
}

/// Without the values of a perturbed reference the tolerance is too narrow for an accusation.
void require_tolerance(const CellEvidence& cell, ClaimResult& result) {
  const bool needs_one = result.claim.predicate == Predicate::equal_reference &&
                         result.verdict == Verdict::violated && cell.reference;
  if (!needs_one) return;
  const Finding finding = result.findings.front();
  const auto step = cell.reference->at(finding.step);
  for (int rank = 1; rank < cell.reference->processes(); ++rank) {
    if (!lacks_value(*step, rank, finding)) continue;
    result.verdict = Verdict::undecided;
    result.findings.clear();
    result.reason = fmt::format(
        "perturbed reference {} has no value of {} in step {}, so the tolerance is unknown", rank,
        finding.tensor, finding.step);
    return;
  }
}

/// Memory is only compared with the reference's limit: other differences from it, or between ranks,
/// are no fault.
bool is_meaningless(const Claim& claim) {
  return (claim.kind == Kind::memory) != (claim.predicate == Predicate::at_most_reference);
}

/// Facts about a cell's reference.
struct Reference {
  Reference(const CellEvidence& cell)
      : run(*cell.reference, cell.world_size), stability(cell, run) {}

  ReferenceRun run;
  ReferenceStability stability;
};

/// Computes the result of one claim. An exception of its judge makes the claim undecided;
/// unreadable files are rethrown.
class JudgedClaim {
 public:
  JudgedClaim(const CellEvidence& cell, const CellFacts& facts, const Claim& claim,
              Reference* reference)
      : cell_(cell), observed_(cell) {
    result_.claim = claim;
    attempt([&] { begin(facts, reference); });
  }

  void see(const CellStep& step) {
    observed_.see(step.actual, result_.claim);
    if (fold_) attempt([&] { fold_->see(step); });
  }

  bool needs_values() const { return fold_ && fold_->needs_values(); }
  bool knows(std::int64_t like) const { return !fold_ || fold_->knows(like); }

  void see_alike(std::int64_t step, std::int64_t like) {
    if (fold_) fold_->see_alike(step, like);
    observed_.see_alike(step, like);
  }

  /// Call after `take`.
  std::map<std::string, std::int64_t> ended() const {
    return fold_ ? fold_->ended() : std::map<std::string, std::int64_t>();
  }

  ClaimResult take() {
    attempt([&] {
      if (fold_) fold_->write(result_);
      require_tolerance(cell_, result_);
      observed_.require_all(result_);
      require_trigger(cell_, result_);
    });
    return std::move(result_);
  }

 private:
  void begin(const CellFacts& facts, Reference* reference) {
    const Claim& claim = result_.claim;
    const bool needs_reference = claim.predicate == Predicate::equal_reference ||
                                 claim.predicate == Predicate::at_most_reference;
    if (claim.kind && !cell_.evidence) {
      result_.reason = "not triggered: nothing was compared";
      return;
    }
    if (is_meaningless(claim)) {
      result_.reason = fmt::format(
          "'{}' cannot be judged: memory can only be claimed to stay within the reference's, and "
          "only memory can",
          sentence(claim));
      return;
    }
    if (needs_reference && !reference) {
      result_.reason = "not triggered: there is no reference";
      return;
    }
    switch (claim.predicate) {
      case Predicate::agree_across_ranks:
        fold_ = fold_agreement(cell_, claim);
        break;
      case Predicate::equal_reference:
        fold_ = fold_equality(cell_, claim, reference->run, reference->stability);
        break;
      case Predicate::ranks_finish:
        judge_exits(cell_, facts, result_);
        break;
      case Predicate::at_most_reference:
        fold_ = fold_memory_limit(cell_, claim);
        break;
      case Predicate::collectives_match:
        judge_collectives(facts, result_);
        break;
      case Predicate::divide_samples:
      case Predicate::reduce_over_ranks:
      case Predicate::are_trained:
      case Predicate::use_held_weights:
      case Predicate::stay_tied:
      case Predicate::have_one_order:
      case Predicate::update_parts_alike:
        break;  // of a job, and judged after its steps (as `reduction_fold`)
      case Predicate::stay_finite:
        fold_ = fold_finiteness(cell_, claim);
        break;
      case Predicate::differ_across_ranks:
        fold_ = fold_distinctness(claim);
        break;
      case Predicate::agree_periodically:
        fold_ = fold_periodic_agreement(cell_, claim);
        break;
    }
  }

  template <class Work>
  void attempt(const Work& work) {
    if (has_failed_) return;
    try {
      work();
    } catch (const std::bad_alloc&) {
      throw;  // unrelated to the claim, and the next one needs memory, too
    } catch (const StaleIndex&) {
      throw;
    } catch (const std::exception& error) {
      const auto* const known = dynamic_cast<const Error*>(&error);
      if (known && known->kind() == Error::Kind::usage) throw;
      has_failed_ = true;
      fold_.reset();
      result_ = ClaimResult{result_.claim, Verdict::undecided,
                            fmt::format("the judge failed: {}", error.what())};
    }
  }

  const CellEvidence& cell_;
  StepCoverage observed_;
  ClaimResult result_;
  std::unique_ptr<ClaimFold> fold_;  ///< null if the claim is not about steps
  bool has_failed_ = false;
};

/// The steps observed in the cell or in its reference, ascending.
std::vector<std::int64_t> steps_of(const CellEvidence& cell) {
  if (!cell.evidence) return {};
  const std::vector<std::int64_t>& own = cell.evidence->steps();
  if (!cell.reference) return own;
  const std::vector<std::int64_t>& expected = cell.reference->steps();
  std::vector<std::int64_t> steps;
  std::set_union(own.begin(), own.end(), expected.begin(), expected.end(),
                 std::back_inserter(steps));
  return steps;
}

/// With the steps whose rows were removed, which references do not have.
std::vector<std::int64_t> with_thinned(const std::vector<std::int64_t>& steps,
                                       const std::vector<std::int64_t>& thinned) {
  std::vector<std::int64_t> all;
  std::set_union(steps.begin(), steps.end(), thinned.begin(), thinned.end(),
                 std::back_inserter(all));
  return all;
}

/// The steps in which ranks agree by their indices and observed the same tensors as in a step
/// already seen. Some of them are read all the same, to compare their rows with the entries. These
/// are the first, the last, a sample and those with snapshots, or all.
class KnownSets {
 public:
  KnownSets(const CellEvidence& cell, std::size_t steps)
      : evidence_(cell.reference ? nullptr : cell.evidence), steps_(steps) {}

  /// A seen step that equals `number`; empty if this one must be read.
  std::optional<std::int64_t> find(std::int64_t number) const {
    const auto set = agreed_set(number);
    if (!set) return std::nullopt;
    const auto known = seen_.find(*set);
    return known == seen_.end() ? std::nullopt : std::optional(known->second);
  }

  void note_seen(std::int64_t number) {
    if (const auto set = agreed_set(number)) seen_[*set] = number;
  }

  /// Whether the rows of the step `number`, the `place`-th, are read.
  bool is_read(std::int64_t number, std::size_t place) const {
    const std::size_t stride = std::max(steps_ / kSample, kMostDense);
    return place + 1 == steps_ || place % stride == 0 || evidence_->must_read(number);
  }

 private:
  std::optional<Digest> agreed_set(std::int64_t number) const {
    return evidence_ ? evidence_->agreed_set(number) : std::nullopt;
  }

  static constexpr std::size_t kSample = 8;
  static constexpr std::size_t kMostDense = 32;  ///< at most one step in this many

  const StepReader* evidence_;  ///< null if every step must be seen
  std::size_t steps_ = 0;
  std::map<Digest, std::int64_t> seen_;
};

bool has_still_copies(const CellEvidence& cell, const ReferenceRun& reference) {
  if (reference.steps().processes() < 2 || reference.steps().rows(1) == 0) return false;
  bool is_compared = false;
  for (const Claim& claim : cell.claims) {
    if (claim.predicate != Predicate::equal_reference) continue;
    if (reference.has_moved(claim)) return false;
    is_compared = is_compared || reference.has_observed(claim);
  }
  return is_compared;
}

/// An error after the damage states its lag, because readers would search the wrong step otherwise.
void tell_lag(std::vector<ClaimResult>& results) {
  const std::int64_t damage = first_damage(results);
  if (damage == 0) return;
  for (ClaimResult& result : results) {
    for (Finding& finding : result.findings) {
      if (!finding.failure || finding.step < damage) continue;
      finding.failure->lag = finding.step - damage;
      if (finding.step == damage) continue;
      finding.sentence += fmt::format(" Values were wrong {} earlier, in step {}.",
                                      counted(finding.step - damage, "step"), damage);
    }
  }
}

/// One pass over the steps of a cell, in which all of its claims are judged.
class JudgingPass {
 public:
  JudgingPass(const CellEvidence& cell, const CellFacts& facts, const StepFolds& others)
      : cell_(cell),
        others_(others),
        wrong_values_(cell),
        steps_(steps_of(cell)),
        known_(cell, steps_.size()) {
    if (cell.evidence && cell.reference) reference_.emplace(cell);
    claims_.reserve(cell.claims.size());
    for (const Claim& claim : cell.claims) {
      claims_.emplace_back(cell, facts, claim, reference_ ? &*reference_ : nullptr);
    }
  }
  JudgingPass(const JudgingPass&) = delete;
  JudgingPass& operator=(const JudgingPass&) = delete;

  void see_all() {
    if (!cell_.evidence) return;
    const std::vector<std::int64_t> thinned = cell_.evidence->thinned_steps();
    std::size_t place = 0;  // among the steps with rows
    for (const std::int64_t number : with_thinned(steps_, thinned)) {
      if (std::binary_search(thinned.begin(), thinned.end(), number)) {
        see_thinned(number);
        continue;
      }
      if (!see_known(number, place)) see_read(number);
      cell_.evidence->note_judged(number);
      ++place;
    }
  }

  Judgement take() {
    Judgement judgement;
    for (JudgedClaim& claim : claims_) {
      judgement.results.push_back(claim.take());
      const Claim& judged = judgement.results.back().claim;
      if (auto ended = claim.ended(); !ended.empty()) judgement.ended.emplace_back(judged, ended);
    }
    tell_lag(judgement.results);
    judgement.wrong_values = wrong_values_.result(judgement.results);
    judgement.has_still_copies = reference_ && has_still_copies(cell_, reference_->run);
    return judgement;
  }

 private:
  /// A step whose rows were removed: claims that know none like it do not see it.
  void see_thinned(std::int64_t number) {
    const auto like = known_.find(number);
    if (!like) return;
    for (JudgedClaim& claim : claims_) {
      if (claim.knows(*like)) claim.see_alike(number, *like);
    }
  }

  /// Whether the step, the `place`-th with rows, is like one that all claims know. They then see
  /// that.
  bool see_known(std::int64_t number, std::size_t place) {
    if (any_wants(others_, number)) return false;
    const auto like = known_.find(number);
    if (!like) return false;
    const bool is_known = std::all_of(claims_.begin(), claims_.end(),
                                      [&](const JudgedClaim& claim) { return claim.knows(*like); });
    if (!is_known) return false;
    if (known_.is_read(number, place)) cell_.evidence->check(number);
    for (JudgedClaim& claim : claims_) claim.see_alike(number, *like);
    return true;
  }

  /// Whether somebody needs more of a step than its tensors.
  bool needs_values(std::int64_t number) const {
    return !cell_.is_job || cell_.reference || !cell_.evidence->is_told_by_indices(number) ||
           any_wants(others_, number) || std::ranges::any_of(claims_, [](const JudgedClaim& claim) {
             return claim.needs_values();
           });
  }

  void see_read(std::int64_t number) {
    if (!needs_values(number)) {
      const StepView tensors = cell_.evidence->tensors_at(number);
      for (JudgedClaim& claim : claims_) claim.see({tensors, nullptr});
      known_.note_seen(number);
      return;
    }
    const auto actual = cell_.evidence->at(number);
    const auto expected = cell_.reference ? cell_.reference->at(number) : nullptr;
    const CellStep step{*actual, expected.get()};
    for (JudgedClaim& claim : claims_) claim.see(step);
    wrong_values_.see(step);
    show(*actual, others_);
    known_.note_seen(number);
  }

  const CellEvidence& cell_;
  const StepFolds& others_;
  std::optional<Reference> reference_;  ///< claims refer to it
  std::vector<JudgedClaim> claims_;
  WrongValuesFold wrong_values_;
  std::vector<std::int64_t> steps_;
  KnownSets known_;
};

}  // namespace

bool is_triggered(const std::vector<RankExit>& exits) {
  return exits.empty() || std::any_of(exits.begin(), exits.end(),
                                      [](const RankExit& end) { return end.line.value_or(1) > 0; });
}

std::int64_t first_damage(const std::vector<ClaimResult>& results) {
  std::int64_t first = 0;
  for (const ClaimResult& result : results) {
    if (result.claim.predicate == Predicate::at_most_reference ||
        result.claim.predicate == Predicate::collectives_match) {
      continue;
    }
    for (const Finding& finding : result.findings) {
      if (finding.failure) continue;
      if (first == 0 || finding.step < first) first = finding.step;
    }
  }
  return first;
}

Judgement judge(const CellEvidence& cell, const CellFacts& facts, const StepFolds& others) {
  JudgingPass pass(cell, facts, others);
  pass.see_all();
  return pass.take();
}

}  // namespace lockstep
