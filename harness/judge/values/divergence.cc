#include "harness/judge/values/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "reports/base/name_pattern.h"
#include "reports/record/estimates.h"

namespace lockstep {

namespace {

/// The snapshot of a group's first rank.
struct KeptValue {
  int rank = 0;
  const SnapshotTensor* tensor = nullptr;
};

/// One per group with a snapshot, in group order.
std::vector<KeptValue> kept_values(const StepView& step, const HeldTensor& place,
                                   const std::vector<std::vector<int>>& groups) {
  std::vector<KeptValue> values;
  for (const std::vector<int>& group : groups) {
    const SnapshotTensor* const kept = step.kept(group.front(), *place.holders.at(group.front()));
    if (kept) values.push_back({group.front(), kept});
  }
  return values;
}

/// Difference of two values; empty if they cannot be compared.
std::optional<ValueDifference> difference_between(const SnapshotTensor& left,
                                                  const SnapshotTensor& right) {
  if (left.dtype != right.dtype || left.shape != right.shape) return {};
  return difference(left, right);
}

/// Stores the first differing element of the first two comparable groups.
void note_first(const ValueDifference& apart, int a, int b, Finding& finding) {
  finding.first_difference = apart.first;
  finding.first_difference->left = fmt::format("rank {}", a);
  finding.first_difference->right = fmt::format("rank {}", b);
  finding.elements = apart.elements;
  finding.differing_elements = apart.differing;
}

/// The largest difference between any two groups; also fills the evidence of `finding` if it is
/// given.
double measure(const StepView& step, const HeldTensor& place,
               const std::vector<std::vector<int>>& groups, Finding* finding) {
  double worst = 0;
  const std::vector<KeptValue> values = kept_values(step, place, groups);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      const int a = values[i].rank;
      const int b = values[j].rank;
      const auto apart = difference_between(*values[i].tensor, *values[j].tensor);
      if (!apart) continue;
      const bool furthest = std::isnan(apart->worst) || apart->worst > worst;
      worst = worse(worst, apart->worst);
      if (finding && !finding->first_difference && apart->first) {
        note_first(*apart, a, b, *finding);
      } else if (finding && furthest) {
        finding->differing_elements = apart->differing;
      }
    }
  }
  return worst;
}

/// Estimates how far the first two groups are apart where no values are stored.
void estimate(const StepView& step, const std::vector<Holder>& holders, Finding& finding) {
  const auto apart = distance_between(step, holders[0], holders[1]);
  if (!apart || !apart->error) return;
  for (const Holder& holder : holders) {
    if (holder.value->statistics.non_finite > 0) return;
  }
  finding.relative_difference = apart->relative;
  finding.estimate_error = apart->error;
  finding.cosine = apart->cosine;
  constexpr double kRounding = 1e-5;  // a factor and nothing else
  if (apart->ratio && apart->rest <= kRounding * apart->right) finding.ratio = apart->ratio;
}

/// "; they are about 0.35 (±13 %) of their norm apart, cosine 0.94".
std::string estimate_in_words(const Finding& finding) {
  std::string text =
      *finding.estimate_error == 0
          ? fmt::format("; they are {:.2g} of their norm apart", *finding.relative_difference)
          : fmt::format("; they are about {:.2g} (±{:.0f} %) of their norm apart",
                        *finding.relative_difference, 100 * *finding.estimate_error);
  if (finding.relative_difference == 0.0) return "; the numbers are equal, with other bits";
  if (finding.ratio) {
    if (number(*finding.ratio) == "1") return text;
    text += fmt::format(", that of rank {} is {} times that of rank {}", finding.groups[1].front(),
                        number(*finding.ratio), finding.groups[0].front());
  } else if (finding.cosine) {
    const bool is_exact = *finding.estimate_error == 0;
    text +=
        ", cosine " +
        cosine_in_words(*finding.cosine,
                        is_exact ? std::nullopt : std::optional(error_of_cosine(*finding.cosine)));
  }
  return text;
}

/// `alike`: tensors that agree in the first step that differs.
std::string sentence_of(const Finding& finding, const std::string& structural,
                        const std::vector<std::string>& alike) {
  std::string text = fmt::format("{} do not agree across ranks: first in step {}, {}: {}",
                                 plural(*finding.claim.kind), finding.step, finding.tensor,
                                 groups_in_words(finding.groups));
  if (!structural.empty()) text += "; " + structural;
  if (finding.first_difference) {
    const std::string apart = finding.worst_difference == 0
                                  ? "equal numbers with other bits"
                                  : "by up to " + number(finding.worst_difference);
    text += fmt::format("; {} of {} elements, {}; {}", finding.differing_elements, finding.elements,
                        apart, element_in_words(*finding.first_difference));
  }
  if (finding.estimate_error) text += estimate_in_words(finding);
  text += ".";
  if (finding.compared > 1) {
    text += fmt::format(" In that step {} differ.", share_in_words(finding.tensors, alike));
  }
  if (finding.last_step > finding.step) {
    text += fmt::format(" Ranks still differ at step {}", finding.last_step);
    if (finding.last_worst_difference != 0) {
      text += fmt::format(" (max {})", number(finding.last_worst_difference));
    }
    text += ".";
  }
  return text;
}

FindingKind kind_of(const Claim& claim) {
  switch (claim.kind.value_or(Kind::data)) {
    case Kind::parameter:
      return is_about_the_start(claim) ? FindingKind::initial_weights_differ
                                       : FindingKind::weights_differ;
    case Kind::gradient:
      return FindingKind::gradients_differ;
    case Kind::buffer:
      return FindingKind::buffers_differ;
    case Kind::loss:
      return FindingKind::losses_differ;
    default:
      return FindingKind::states_differ;
  }
}

void note_tensor(const std::string& name, Finding& finding) {
  std::vector<std::string>& names = finding.tensors;
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

std::vector<Holder> holders_of(const HeldTensor& place,
                               const std::vector<std::vector<int>>& groups) {
  std::vector<Holder> holders;
  for (const std::vector<int>& group : groups) {
    holders.push_back({group.front(), place.holders.at(group.front())});
  }
  return holders;
}

Divergence::Divergence(const Claim& claim) {
  finding_.claim = claim;
  finding_.kind = kind_of(claim);
}

void Divergence::add(const StepView& step, const HeldTensor& place,
                     const std::vector<std::vector<int>>& groups) {
  const bool is_first = finding_.places++ == 0;
  const double worst = measure(step, place, groups, is_first ? &finding_ : nullptr);
  if (is_first) {
    begin(place, groups, worst);
    estimate(step, holders_of(place, groups), finding_);
  }
  if (place.step == finding_.step) note_tensor(place.tensor->name, finding_);
  const double before = place.step == finding_.last_step ? finding_.last_worst_difference : 0;
  finding_.last_step = place.step;
  finding_.last_worst_difference = worse(before, worst);
}

void Divergence::begin(const HeldTensor& place, const std::vector<std::vector<int>>& groups,
                       double worst) {
  finding_.step = place.step;
  finding_.tensor = place.tensor->name;
  finding_.groups = groups;
  finding_.worst_difference = worst;
  const int left = groups[0].front();
  const int right = groups[1].front();
  structural_ = structural_difference(*place.holders.at(left), fmt::format("rank {}", left),
                                      *place.holders.at(right), fmt::format("rank {}", right));
}

void Divergence::note_compared(std::int64_t step, const std::vector<const HeldTensor*>& tensors) {
  if (is_empty() || step != finding_.step) return;
  const std::set<std::string_view> differing(finding_.tensors.begin(), finding_.tensors.end());
  std::set<std::string> alike;
  for (const HeldTensor* const one : tensors) {
    const std::string& name = one->tensor->name;
    if (!differing.contains(name)) alike.insert(name);
  }
  alike_ = {alike.begin(), alike.end()};
  finding_.compared = static_cast<std::int64_t>(differing.size() + alike.size());
  finding_.pattern = alike.empty() ? "" : pattern_of(finding_.tensors, alike_);
}

Finding Divergence::take() {
  finding_.sentence = sentence_of(finding_, structural_, alike_);
  return std::move(finding_);
}

}  // namespace lockstep
