#include "harness/verdict/reduction_fold.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "harness/verdict/chosen_steps.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Steps that are judged, of all in which contributions were observed.
constexpr std::size_t kMostJudged = 64;

/// While a job trains, gradients may be missing in so many judged steps.
constexpr std::size_t kStepsWithoutGradient = 2;

/// A wrong reduction of a tensor.
struct Fault {
  std::string tensor;
  Reduction reduction;  ///< without its reach
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t steps = 0;  ///< that were judged and show it

  bool is_like(const Fault& other) const {
    return reduction == other.reduction && first == other.first;
  }
};

/// Up to roundings.
bool is_nearly(double factor, double wanted) { return std::abs(factor - wanted) < 0.01 * wanted; }

bool do_ranks_agree(Reduced reduced) {
  return reduced == Reduced::over_some || reduced == Reduced::divided ||
         reduced == Reduced::early_sum || reduced == Reduced::nowhere;
}

bool do_ranks_differ(Reduced reduced) {
  return reduced == Reduced::within_groups || reduced == Reduced::early_pass ||
         reduced == Reduced::changed_after;
}

/// That of a tensor is seen step by step.
class Course {
 public:
  /// `first_apart`: the step in which ranks differ in the gradient first; empty: they do not.
  Course(const std::string& tensor, std::optional<std::int64_t> first_apart)
      : first_apart_(first_apart) {
    fault_.tensor = tensor;
  }

  void see(std::int64_t step, Reduction reduction) {
    reduction.reach = 0;
    reduction.factor = 0;
    reduction.are_alike = false;
    const bool is_again = reduction == before_.second;
    const bool is_wrong =
        do_ranks_agree(reduction.reduced)
            ? is_again
            : do_ranks_differ(reduction.reduced) && first_apart_.value_or(step + 1) <= step;
    const auto before = std::exchange(before_, {step, reduction});
    if (!is_wrong) return;
    const bool is_first = fault_.steps == 0;
    if (is_first) {
      fault_.first = is_again ? before.first : step;
      fault_.steps = is_again ? 1 : 0;
      fault_.reduction = std::move(reduction);
    } else if (fault_.reduction != reduction) {
      return;
    }
    fault_.last = step;
    ++fault_.steps;
  }

  const Fault* fault() const { return fault_.steps > 0 ? &fault_ : nullptr; }

 private:
  std::optional<std::int64_t> first_apart_;
  std::pair<std::int64_t, Reduction> before_;
  Fault fault_;
};

/// The finding that gradients differ between ranks; null: there is none.
const Finding* gradients_apart_in(const std::vector<ClaimResult>& results) {
  const Claim agree = agree_across_ranks(Kind::gradient, Phase::pre_step);
  const auto apart = std::ranges::find_if(results, [&](const ClaimResult& result) {
    return result.claim == agree && !result.findings.empty();
  });
  return apart == results.end() ? nullptr : &apart->findings.front();
}

std::optional<std::int64_t> first_apart(const Finding* apart, const std::string& tensor) {
  const bool is_of_it = apart && std::ranges::find(apart->tensors, tensor) != apart->tensors.end();
  return is_of_it ? std::optional(apart->step) : std::nullopt;
}

/// Tensors that have a gradient before some step.
std::set<std::string> with_gradients(const StepReader& evidence) {
  const Claim agree = agree_across_ranks(Kind::gradient, Phase::pre_step);
  std::set<std::string> names;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (concerns(agree, tensor) && !is_undefined(tensor)) names.insert(tensor.name);
  }
  return names;
}

/// Whether ranks had joined: others may divide by the number of all, or of those that train.
bool is_without_some(const CellEvidence& cell, std::int64_t step) {
  return std::ranges::any_of(cell.joined, [&](const JoinedRanks& one) {
    return has_joined({one}, one.ranks.front(), step);
  });
}

bool has_ended(const std::vector<RankExit>& exits) {
  return std::ranges::none_of(exits,
                              [](const RankExit& end) { return end.kind == ExitKind::unfinished; });
}

bool are_single(const std::vector<std::vector<int>>& groups) {
  return std::ranges::all_of(groups, [](const auto& ranks) { return ranks.size() == 1; });
}

FindingKind kind_of(const Reduction& reduction) {
  switch (reduction.reduced) {
    case Reduced::divided:
      return FindingKind::divided_by_world_size;
    case Reduced::changed_after:
      return FindingKind::changed_after_reduction;
    case Reduced::early_pass:
    case Reduced::early_sum:
      return FindingKind::passes_left_out;
    case Reduced::nowhere:
      return FindingKind::gradient_never_synchronised;
    case Reduced::within_groups:
      if (are_single(reduction.ranks)) return FindingKind::gradient_never_synchronised;
      break;
    default:
      break;
  }
  return FindingKind::ranks_left_out;
}

/// "gradients on all ranks are those of rank 0 alone".
std::string reduction_in_words(const Reduction& reduction) {
  const std::vector<int>& first = reduction.ranks.at(0);
  switch (reduction.reduced) {
    case Reduced::divided:
      return fmt::format("gradients are 1/{} of the mean of {} ranks: averaged twice", first.size(),
                         first.size());
    case Reduced::changed_after:
      return fmt::format("gradients were changed on {} after the backward pass",
                         ranks_in_words(first));
    case Reduced::early_pass:
      return fmt::format(
          "gradients were reduced after backward pass {} alone, and later passes added to them",
          reduction.pass);
    case Reduced::early_sum:
      return "gradients lack what the last backward passes of a step contributed";
    case Reduced::nowhere:
      return "gradients were never synchronised: no backward pass reduced what ranks contributed";
    case Reduced::over_some:
      return first.size() == 1 ? fmt::format("gradients on all ranks are those of {} alone",
                                             ranks_in_words(first))
                               : fmt::format("gradients lack the contribution of {}",
                                             ranks_in_words(reduction.ranks.at(1)));
    default:
      break;
  }
  if (are_single(reduction.ranks)) return "gradients were reduced nowhere: each rank has its own";
  std::vector<std::string> groups;
  for (const std::vector<int>& ranks : reduction.ranks) groups.push_back(ranks_in_words(ranks));
  return fmt::format("gradients are reduced within {} only", fmt::join(groups, " and within "));
}

/// To two digits: it is an estimate.
std::size_t rounded_down(std::size_t number) {
  std::size_t unit = 1;
  while (number / unit >= 100) unit *= 10;
  return number / unit * unit;
}

/// Of the faults that begin first, those that are alike on most tensors.
std::vector<const Fault*> main_faults(const std::vector<const Fault*>& faults) {
  const std::int64_t first = (*std::ranges::min_element(faults, {}, [](const Fault* fault) {
                               return fault->first;
                             }))->first;
  std::vector<std::vector<const Fault*>> alike;
  for (const Fault* const fault : faults) {
    if (fault->first != first) continue;
    const auto known = std::ranges::find_if(
        alike, [&](const auto& others) { return others.front()->is_like(*fault); });
    (known == alike.end() ? alike.emplace_back() : *known).push_back(fault);
  }
  return *std::ranges::max_element(alike, {}, [](const auto& those) { return those.size(); });
}

/// Of faults that are alike. `judged`: tensors of the step in which they begin.
Finding finding_of(const std::vector<const Fault*>& faults, std::size_t judged) {
  const Fault& first = *faults.front();
  Finding finding;
  finding.claim = reduce_over_ranks();
  finding.kind = kind_of(first.reduction);
  finding.step = first.first;
  finding.tensor = first.tensor;
  finding.groups = first.reduction.ranks;
  finding.compared = static_cast<std::int64_t>(judged);
  for (const Fault* const fault : faults) {
    finding.tensors.push_back(fault->tensor);
    finding.last_step = std::max(finding.last_step, fault->last);
    finding.places += fault->steps;
  }
  finding.sentence =
      fmt::format("{}; {} of {}, from step {} on.", reduction_in_words(first.reduction),
                  finding.tensors.size(), judged, finding.step);
  return finding;
}

}  // namespace

ReductionFold::ReductionFold(const CellEvidence& cell) : cell_(cell) {
  if (!cell.evidence) return;
  std::vector<std::int64_t> all = cell.evidence->steps_with_passes();
  std::erase_if(all, [&cell](std::int64_t step) { return is_without_some(cell, step); });
  steps_ = chosen_steps(all, kMostJudged);
}

void ReductionFold::see(const StepView& step) {
  if (!wants(step.number())) return;
  Reductions reductions = reductions_in(step, cell_.unshared);
  if (!reductions.empty()) judged_.emplace(step.number(), std::move(reductions));
}

void ReductionFold::drop_open_steps() {
  const bool is_certain = has_ended(cell_.exits) || judged_.size() > kStepsWithoutGradient;
  const std::set<std::string> arriving = with_gradients(*cell_.evidence);
  for (auto& [step, reductions] : judged_) {
    for (auto& [tensor, reduction] : reductions) {
      if (reduction.reduced != Reduced::nowhere) continue;
      if (!is_certain || arriving.contains(tensor)) reduction = {};
    }
  }
}

std::optional<ClaimResult> ReductionFold::result(const std::vector<ClaimResult>& results) {
  if (judged_.empty()) return std::nullopt;
  drop_open_steps();
  ClaimResult result;
  result.claim = reduce_over_ranks();
  const Finding* const apart = gradients_apart_in(results);
  std::map<std::string, Course> courses;
  for (const auto& [step, reductions] : judged_) {
    for (const auto& [tensor, reduction] : reductions) {
      if (reduction.reduced != Reduced::unknown) ++result.comparisons;
      courses.try_emplace(tensor, tensor, first_apart(apart, tensor))
          .first->second.see(step, reduction);
    }
  }
  if (result.comparisons == 0) return std::nullopt;
  std::vector<const Fault*> faults;
  for (const auto& [tensor, course] : courses) {
    if (course.fault()) faults.push_back(course.fault());
  }
  result.verdict = faults.empty() ? Verdict::holds : Verdict::violated;
  if (!faults.empty()) {
    const std::vector<const Fault*> alike = main_faults(faults);
    result.findings.push_back(finding_of(alike, judged_.at(alike.front()->first).size()));
  }
  return result;
}

std::string ReductionFold::sums_in_words() const {
  if (judged_.empty()) return "";
  std::map<std::string, double> factors;  // of the last step
  for (const auto& [tensor, reduction] : judged_.rbegin()->second) {
    if (reduction.reduced == Reduced::over_all) factors.emplace(tensor, reduction.factor);
  }
  const double ranks = cell_.world_size;
  std::vector<std::string> sums, others;
  for (const auto& [tensor, factor] : factors) {
    const auto is_of_mean = [&, own = factor](const auto& other) {
      return is_nearly(own, ranks * other.second);
    };
    (std::ranges::any_of(factors, is_of_mean) ? sums : others).push_back(tensor);
  }
  if (!sums.empty()) {
    return fmt::format(
        "gradients of {} are {} times as large as those of {}, by the means of what "
        "ranks contributed: a sum instead of a mean?",
        listed(sums, 2), cell_.world_size, listed(others, 2));
  }
  const bool are_sums = !factors.empty() && std::ranges::all_of(factors, [&](const auto& one) {
    return is_nearly(one.second, ranks);
  });
  return are_sums
             ? "gradients are the sum of what ranks contributed, as losses that are summed over "
               "tokens need them, and not the mean"
             : "";
}

std::string ReductionFold::alike_in_words() const {
  const bool are_alike = judged_.size() > 1 && std::ranges::all_of(judged_, [](const auto& step) {
                           return std::ranges::all_of(
                               step.second, [](const auto& one) { return one.second.are_alike; });
                         });
  if (!are_alike) return "";
  return fmt::format(
      "all ranks contributed the same to all gradients, in {}: they train on the same samples, as "
      "ranks that divide a model do, and as others should not",
      counted(static_cast<std::int64_t>(judged_.size()), "step"));
}

std::string ReductionFold::judged_in_words() const {
  std::size_t reach = 0, known = 0, all = 0;
  for (const auto& [step, reductions] : judged_) {
    for (const auto& [tensor, reduction] : reductions) {
      reach = std::max(reach, reduction.reach);
      known += reduction.reduced == Reduced::unknown ? 0 : 1;
      ++all;
    }
  }
  if (all == 0) return "";
  const std::string steps = counted(static_cast<std::int64_t>(judged_.size()), "step");
  if (known == 0) {
    return fmt::format(
        "the reduction of gradients was not judged: none, in {}, is the mean of what all ranks "
        "contributed, or one of the wrong sums that are known",
        steps);
  }
  std::string text = fmt::format(
      "gradients of {} were compared with what each rank contributed: {} of {}", steps, known, all);
  if (reach > 0) {
    text += fmt::format("; a rank left out would show among up to {}", rounded_down(reach));
  }
  return text;
}

std::string reduction_in_words(const Finding& finding) {
  return finding.sentence.substr(0, finding.sentence.find(';'));
}

}  // namespace lockstep
