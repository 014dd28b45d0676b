#include "harness/verdict/step_behind.h"

#include <fmt/format.h>

#include <map>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/values/held_tensors.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMostBehind = 4;  // steps

using Gradients = std::map<HeldTensorKey, const Observation*>;

/// Those that can be compared. `rows` outlive them.
Gradients gradients_in(const std::vector<Observation>& rows) {
  const Claim claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  Gradients gradients;
  for (const Observation& row : rows) {
    if (!concerns(claim, row) || !row.not_comparable.empty()) continue;
    gradients.emplace(HeldTensorKey(row), &row);
  }
  return gradients;
}

/// Whether all gradients of one rank have the bits of those of another one. None of zeros tells
/// anything.
bool are_alike(const Gradients& own, const Gradients& others) {
  bool tells = false;
  for (const auto& [key, row] : own) {
    const auto like = others.find(key);
    if (like == others.end() || !is_same_value(*row, *like->second)) return false;
    tells = tells || row->statistics.norm > 0;
  }
  return tells;
}

/// The finding that gradients differ between two groups of ranks; null: there is none.
const Finding* parting_of_two(const std::vector<ClaimResult>& results) {
  const Claim claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  for (const ClaimResult& result : results) {
    if (result.claim != claim || result.findings.empty()) continue;
    const Finding& finding = result.findings.front();
    return finding.groups.size() == 2 ? &finding : nullptr;
  }
  return nullptr;
}

}  // namespace

std::optional<StepBehind> step_behind(const StepReader& evidence,
                                      const std::vector<ClaimResult>& results) {
  const Finding* const parting = parting_of_two(results);
  if (!parting) return std::nullopt;
  for (const std::size_t behind : {0U, 1U}) {
    const std::vector<int>&ranks = parting->groups[behind], &others = parting->groups[1 - behind];
    const auto rows = evidence.rows_of(ranks.front(), parting->step);
    const Gradients own = gradients_in(rows);
    for (std::int64_t count = 1; count <= kMostBehind; ++count) {
      const auto later = evidence.rows_of(others.front(), parting->step + count);
      if (are_alike(own, gradients_in(later)))
        return StepBehind{ranks, others, parting->step, count};
    }
  }
  return std::nullopt;
}

std::string in_words(const StepBehind& behind) {
  const bool is_one = behind.ranks.size() == 1;
  return fmt::format(
      "{} {} {} behind: {} gradients of step {} are those of step {} on {}",
      ranks_in_words(behind.ranks), is_one ? "is" : "are",
      behind.count == 1 ? "an optimizer step" : counted(behind.count, "optimizer step"),
      is_one ? "its" : "their", behind.step, behind.step + behind.count,
      ranks_in_words(behind.others));
}

}  // namespace lockstep
