#include "harness/verdict/written_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// The finding that parameters differ; null: there is none.
const Finding* parting_of_parameters(const std::vector<ClaimResult>& results) {
  for (const ClaimResult& result : results) {
    const bool is_it = result.claim.predicate == Predicate::agree_across_ranks &&
                       result.claim.kind == Kind::parameter;
    if (is_it && !result.findings.empty()) return &result.findings.front();
  }
  return nullptr;
}

/// Of the first tensor of a finding, on a rank; absent: it was not observed there.
std::optional<Observation> before_step(const StepReader& evidence, int rank,
                                       const Finding& finding) {
  for (const Observation& row : evidence.rows_of(rank, finding.step)) {
    const bool is_it = row.kind == Kind::parameter && row.phase == Phase::pre_forward &&
                       row.name == finding.tensor;
    if (is_it) return row;
  }
  return std::nullopt;
}

/// Whether two groups of ranks held other values before the step, too.
bool differ_before(const StepReader& evidence, const Finding& finding) {
  if (finding.groups.size() < 2) return false;
  const auto one = before_step(evidence, finding.groups[0].front(), finding);
  const auto other = before_step(evidence, finding.groups[1].front(), finding);
  return one && other && !is_same_value(*one, *other);
}

/// Ascending.
std::vector<int> writers_before(std::int64_t step, const JobRecord& job) {
  std::vector<int> writers;
  for (const StepsOfRanks& one : job.written_by) {
    if (std::ranges::find(one.steps, step) == one.steps.end()) continue;
    writers.insert(writers.end(), one.ranks.begin(), one.ranks.end());
  }
  std::ranges::sort(writers);
  return writers;
}

/// Whether all ranks wrote before the step, and as far as known before each: as engines do that
/// swap the memory of parameters.
bool is_routine(const std::vector<int>& writers, std::int64_t step, const JobRecord& job) {
  const bool are_all = static_cast<int>(writers.size()) == training_ranks(job);
  return are_all && (step == 2 || writers_before(step - 1, job) == writers);
}

}  // namespace

std::optional<WrittenApart> written_apart(const StepReader& evidence, const JobRecord& job) {
  const Finding* const parting = parting_of_parameters(job.results);
  if (!parting) return std::nullopt;
  const std::vector<std::int64_t>& steps = evidence.steps();
  const bool is_next = std::ranges::find(steps, parting->step - 1) != steps.end();
  if (!is_next || !differ_before(evidence, *parting)) return std::nullopt;
  std::vector<int> writers = writers_before(parting->step, job);
  if (writers.empty() || is_routine(writers, parting->step, job)) return std::nullopt;
  return WrittenApart{std::move(writers), parting->step};
}

std::string in_words(const WrittenApart& written) {
  return fmt::format(
      "parameters were written on {} between steps {} and {}, outside of the optimizer",
      ranks_in_words(written.ranks), written.step - 1, written.step);
}

}  // namespace lockstep
