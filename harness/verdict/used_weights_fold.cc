#include "harness/verdict/used_weights_fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "harness/verdict/job_fault.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr const char* kStale = "gathered before the optimizer's step, and not again";

/// "forward passes computed with other weights than the optimizer holds (4 of 4, from step 2)".
Symptom symptom_of_other_weights(const Finding& finding, bool is_stale) {
  std::string text = fmt::format(
      "forward passes computed with other weights than the optimizer holds ({} of {}, from step "
      "{})",
      finding.tensors.size(), finding.compared, finding.step);
  if (is_stale) text += fmt::format(". Cause: they were {}", kStale);
  return symptom_of_wrong(finding, std::move(text));
}

}  // namespace

UsedWeightsFold::UsedWeightsFold(const CellEvidence& cell) {
  if (!cell.evidence) return;
  for (const auto& [tensor, ranks] : cell.evidence->tensors()) {
    has_rows_ = has_rows_ || tensor.kind == Kind::used_weight;
  }
}

bool UsedWeightsFold::wants([[maybe_unused]] std::int64_t step) const { return has_rows_; }

void UsedWeightsFold::see(const StepView& step) {
  if (!has_rows_) return;
  std::map<std::string, UsedWeight> weights = used_weights_in(step);
  if (weights.empty()) return;
  compared_[step.number()] = weights.size();
  for (auto& [name, weight] : weights) {
    if (!weight.others.empty()) note(step.number(), name, weight);
    held_.insert_or_assign(name, std::pair(step.number(), std::move(weight.held)));
  }
}

void UsedWeightsFold::note(std::int64_t step, const std::string& name, const UsedWeight& weight) {
  Course& course = others_[name];
  if (course.steps == 0) course.first = step;
  course.last = step;
  ++course.steps;
  course.ranks.insert(weight.others.begin(), weight.others.end());
  const auto before = held_.find(name);
  if (before == held_.end() || course.used_in > 0) return;
  const auto& [held_in, digests] = before->second;
  const bool is_one_before = std::ranges::all_of(weight.others, [&, &held = digests](int rank) {
    const auto own = held.find(rank);
    return own != held.end() && own->second == weight.used.at(rank);
  });
  if (!is_one_before) return;
  course.used_in = step;
  course.held_in = held_in;
}

const UsedWeightsFold::Course* UsedWeightsFold::first_stale() const {
  const auto stale =
      std::ranges::find_if(others_, [](const auto& one) { return one.second.used_in > 0; });
  return stale == others_.end() ? nullptr : &stale->second;
}

Finding UsedWeightsFold::finding(const Course* stale) const {
  Finding finding;
  finding.claim = use_held_weights();
  finding.kind = FindingKind::other_weights_used;
  finding.step = std::ranges::min_element(others_, {}, [](const auto& one) {
                   return one.second.first;
                 })->second.first;
  finding.compared = static_cast<std::int64_t>(compared_.at(finding.step));
  std::set<int> ranks;
  for (const auto& [name, course] : others_) {
    finding.last_step = std::max(finding.last_step, course.last);
    finding.places += course.steps;
    ranks.insert(course.ranks.begin(), course.ranks.end());
    if (course.first == finding.step) finding.tensors.push_back(name);
  }
  finding.tensor = finding.tensors.front();
  finding.groups = {{ranks.begin(), ranks.end()}};
  finding.sentence =
      fmt::format("the weights of {} that modules had on {} are not those of the optimizer.",
                  listed(finding.tensors, 2), ranks_in_words(finding.groups[0]));
  if (stale) {
    finding.sentence += fmt::format(" In step {} they are those of step {}: {}.", stale->used_in,
                                    stale->held_in, kStale);
  }
  return finding;
}

std::optional<JudgedWeights> UsedWeightsFold::judged() const {
  if (compared_.empty()) return std::nullopt;
  JudgedWeights judged;
  ClaimResult& result = judged.result;
  result.claim = use_held_weights();
  std::size_t most = 0;
  for (const auto& [step, weights] : compared_) {
    result.comparisons += static_cast<std::int64_t>(weights);
    most = std::max(most, weights);
  }
  judged.note =
      fmt::format("up to {} of forward passes were compared with what the optimizer holds, in {}",
                  counted(most, "weight"), counted(compared_.size(), "step"));
  result.verdict = others_.empty() ? Verdict::holds : Verdict::violated;
  if (others_.empty()) return judged;
  const Course* const stale = first_stale();
  result.findings.push_back(finding(stale));
  judged.symptom = symptom_of_other_weights(result.findings[0], stale != nullptr);
  return judged;
}

}  // namespace lockstep
