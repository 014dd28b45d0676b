#include "harness/judge/values/distinctness.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/held_tensors.h"
#include "reports/base/name_pattern.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Leaves out the ranks that have no value to compare.
HeldTensor with_values(HeldTensor tensor) {
  std::vector<int> without;
  for (const auto& [rank, row] : tensor.holders) {
    if (is_undefined(*row) || !row->not_comparable.empty()) without.push_back(rank);
  }
  for (const int rank : without) tensor.leave_out(rank);
  return tensor;
}

/// The ranks that hold the same, by lowest rank.
std::vector<std::vector<int>> alike(const HeldTensor& tensor) {
  std::vector<std::vector<int>> groups = groups_of(tensor);
  std::erase_if(groups, [](const std::vector<int>& group) { return group.size() < 2; });
  return groups;
}

class DistinctnessFold : public ClaimFold {
 public:
  explicit DistinctnessFold(const Claim& claim) {
    finding_.claim = claim;
    finding_.kind = claim.kind == Kind::data ? FindingKind::same_samples : FindingKind::same_values;
  }

  void see(const CellStep& step) override {
    std::vector<std::string> different;
    for (HeldTensor& any : held_tensors(step.actual, finding_.claim, {})) {
      const HeldTensor held = with_values(std::move(any));
      if (held.holders.size() < 2) continue;
      ++comparisons_;
      std::vector<std::vector<int>> groups = alike(held);
      groups.empty() ? different.push_back(held.tensor->name)
                     : note(held.step, held.tensor->name, std::move(groups));
    }
    if (finding_.step != step.actual.number()) return;
    finding_.compared = std::ssize(finding_.tensors) + std::ssize(different);
    different_ = std::move(different);
  }

  void write(ClaimResult& result) override {
    result.comparisons = comparisons_;
    if (finding_.places > 0) {
      result.verdict = Verdict::violated;
      finding_.sentence = in_words();
      result.findings.push_back(std::move(finding_));
      return;
    }
    result.verdict = comparisons_ > 0 ? Verdict::holds : Verdict::undecided;
    if (comparisons_ == 0) result.reason = "not triggered: nothing was compared";
  }

 private:
  void note(std::int64_t step, const std::string& name, std::vector<std::vector<int>> groups) {
    if (finding_.places++ == 0) {
      finding_.step = step;
      finding_.tensor = name;
      finding_.groups = std::move(groups);
    }
    finding_.last_step = step;
    if (step == finding_.step) finding_.tensors.push_back(name);
  }

  std::string in_words() const {
    std::string who;
    for (const std::vector<int>& group : finding_.groups) {
      who += fmt::format("{}{}", who.empty() ? "" : "; ", ranks_in_words(group));
    }
    std::string text =
        fmt::format("{} do not differ across ranks: first in step {}, {}: {} hold the same.",
                    plural(*finding_.claim.kind), finding_.step, finding_.tensor, who);
    if (finding_.compared > 1) {
      text += fmt::format(" In that step {} are the same.",
                          share_in_words(finding_.tensors, different_));
    }
    return text;
  }

  Finding finding_;
  std::vector<std::string> different_;  ///< in the step of the finding
  std::int64_t comparisons_ = 0;
};

}  // namespace

std::unique_ptr<ClaimFold> fold_distinctness(const Claim& claim) {
  return std::make_unique<DistinctnessFold>(claim);
}

}  // namespace lockstep
