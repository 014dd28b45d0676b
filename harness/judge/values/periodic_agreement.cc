#include "harness/judge/values/periodic_agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "harness/judge/values/divergence.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/judge/values/unshared_tensors.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

class PeriodicAgreementFold : public ClaimFold {
 public:
  PeriodicAgreementFold(const CellEvidence& cell, const Claim& claim)
      : cell_(cell),
        claim_(claim),
        period_(cell.agree_every),
        unshared_(cell.unshared),
        holders_(cell, claim),
        first_open_(first_open_step(cell)),
        divergence_(claim),
        silent_rank_(holders_.first_silent_rank(cell)) {}

  void see(const CellStep& step) override {
    const std::int64_t number = step.actual.number();
    std::int64_t comparisons = 0;
    bool is_apart = false;
    if (number != last_ + 1) apart_ = 0;
    const HeldTensors tensors = held_tensors(step.actual, claim_, unshared_);
    for (const HeldTensor& tensor : tensors) {
      note_if_missing(tensor, number);
      if (!is_compared(tensor)) continue;
      ++comparisons;
      is_apart = is_apart || groups_of(tensor).size() > 1;
    }
    if (comparisons == 0) return;
    comparisons_ += comparisons;
    if (last_ == 0) last_agreed_or_begin_ = number - 1;
    last_ = number;
    apart_ = is_apart ? apart_ + 1 : 0;
    if (!is_apart) last_agreed_ = last_agreed_or_begin_ = number;
    if (is_apart && number - last_agreed_or_begin_ >= period_ && reason_.empty()) {
      reason_ =
          fmt::format("ranks differ in step {}, and not every step before was observed", number);
    }
    if (apart_ >= period_ || (is_apart && number == 1)) add(step.actual, tensors);
  }

  bool needs_values() const override { return false; }

  void write(ClaimResult& result) override {
    result.comparisons = comparisons_;
    if (!divergence_.is_empty()) {
      result.verdict = Verdict::violated;
      result.findings.push_back(divergence_.take());
      result.findings.back().sentence += found_in_words();
      return;
    }
    result.reason = silent_rank_.empty() ? unshared_in_words(cell_) : silent_rank_;
    if (result.reason.empty()) result.reason = reason_;
    if (!result.reason.empty()) return;
    if (last_agreed_ == 0) {
      result.reason = comparisons_ == 0 ? "not triggered: nothing was compared"
                                        : "the ranks agreed in no step that was observed";
      return;
    }
    result.verdict = Verdict::holds;
  }

 private:
  bool is_compared(const HeldTensor& tensor) const {
    return holders_.may_be_compared(tensor) && tensor.holders.size() > 1 && is_comparable(tensor);
  }

  void note_if_missing(const HeldTensor& tensor, std::int64_t step) {
    if (step >= first_open_ || !reason_.empty() || holders_.are_all_in(tensor)) return;
    reason_ = holders_.missing_in_words(tensor);
  }

  void add(const StepView& step, const HeldTensors& tensors) {
    if (divergence_.is_empty()) agreed_before_ = last_agreed_;
    for (const HeldTensor& tensor : tensors) {
      if (!is_compared(tensor)) continue;
      const auto groups = groups_of(tensor);
      if (groups.size() > 1) divergence_.add(step, tensor, groups);
    }
  }

  std::string found_in_words() const {
    return agreed_before_ == 0 ? fmt::format(" They have to agree {}.", every(period_, "step"))
                               : fmt::format(" They have to agree {}, and last did in step {}.",
                                             every(period_, "step"), agreed_before_);
  }

  const CellEvidence& cell_;
  Claim claim_;
  std::int64_t period_;
  const std::set<std::string>& unshared_;
  ExpectedHolders holders_;
  std::int64_t first_open_;  ///< from this step on a tensor may be missing
  Divergence divergence_;
  std::string silent_rank_;
  std::string reason_;  ///< why the claim cannot be judged: the first
  std::int64_t comparisons_ = 0;
  std::int64_t last_agreed_or_begin_ = 0;  ///< step; before the first observed one if none
  std::int64_t last_ = 0;                  ///< step with a comparison
  std::int64_t apart_ = 0;          ///< steps in a row, up to this one, in which ranks differ
  std::int64_t last_agreed_ = 0;    ///< step; 0: none
  std::int64_t agreed_before_ = 0;  ///< the first finding
};

constexpr std::size_t kMostSteps = 200;  ///< that are searched

/// The steps since `first` in a phase of which the parameters of ranks agreed, and the number of
/// the others.
struct Again {
  std::vector<std::int64_t> agreed;
  std::size_t apart = 0;
};

Again agreement_since(const CellEvidence& cell, std::int64_t first, Phase phase) {
  const Claim claim = agree_across_ranks(Kind::parameter, phase);
  const std::vector<std::int64_t>& steps = cell.evidence->steps();
  Again again;
  std::size_t searched = 0;
  for (auto at = std::upper_bound(steps.begin(), steps.end(), first);
       at != steps.end() && searched < kMostSteps; ++at, ++searched) {
    const auto step = cell.evidence->at(*at);
    std::size_t compared = 0;
    bool is_apart = false;
    for (const HeldTensor& tensor : held_tensors(*step, claim, cell.unshared)) {
      if (tensor.holders.size() < 2 || !is_comparable(tensor)) continue;
      ++compared;
      is_apart = is_apart || groups_of(tensor).size() > 1;
    }
    if (compared == 0) continue;
    if (is_apart) {
      ++again.apart;
    } else {
      again.agreed.push_back(*at);
    }
  }
  return again;
}

/// The distance between the steps in which ranks agree; 0: they agree at most once, or not
/// regularly. 1: in all of them.
std::int64_t period_of(const Again& again) {
  if (again.agreed.size() < 2) return 0;
  const std::int64_t period = again.agreed[1] - again.agreed[0];
  for (std::size_t i = 1; i < again.agreed.size(); ++i) {
    if (again.agreed[i] - again.agreed[i - 1] != period) return 0;
  }
  return period;
}

}  // namespace

std::unique_ptr<ClaimFold> fold_periodic_agreement(const CellEvidence& cell, const Claim& claim) {
  return std::make_unique<PeriodicAgreementFold>(cell, claim);
}

std::string AgreementAgain::in_words() const {
  constexpr std::size_t kShown = 4;
  const auto shown = steps.begin() + std::ptrdiff_t(std::min(steps.size(), kShown));
  return fmt::format(
      "the parameters agree again {} ({} step {}), as with LocalSGD; if that is "
      "meant, watch with --agree-every {}",
      every(period, "step"), phase == Phase::pre_forward ? "before" : "after",
      fmt::join(steps.begin(), shown, ", "), period);
}

std::optional<AgreementAgain> agreement_again(const CellEvidence& cell,
                                              const std::vector<ClaimResult>& results) {
  const auto found = std::find_if(results.begin(), results.end(), [](const ClaimResult& result) {
    return result.claim == agree_across_ranks(Kind::parameter, Phase::post_step) &&
           result.verdict == Verdict::violated;
  });
  if (found == results.end()) return std::nullopt;
  const std::int64_t first = found->findings.front().step;
  const Again after = agreement_since(cell, first, Phase::post_step);
  for (const Phase phase : {Phase::pre_forward, Phase::post_step}) {
    const Again again =
        phase == Phase::post_step ? after : agreement_since(cell, first, Phase::pre_forward);
    const std::int64_t period = period_of(again);
    const bool is_averaged_each_time = period == 1 && after.agreed.empty() && after.apart > 0;
    if (period == 0 || (again.apart == 0 && !is_averaged_each_time)) continue;
    return AgreementAgain{period, phase, again.agreed};
  }
  return std::nullopt;
}

}  // namespace lockstep
