#include "harness/verdict/repetition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "harness/verdict/expectation.h"

namespace lockstep {

namespace {

/// The first differing observation of two runs; empty if there is none.
std::string first_other_observation(const StepView& again, const StepView& first) {
  for (int rank = 0; rank < first.processes(); ++rank) {
    const auto before = first.observations(rank);
    const auto after = again.observations(rank);
    const auto [a, b] = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
    if (a == before.end() && b == after.end()) continue;
    const Observation& other = a != before.end() ? *a : *b;
    return fmt::format("rank {} observed a different {} in step {}", rank, other.name, other.step);
  }
  return "";
}

std::string first_other_observation(const StepReader& again, const StepReader& first) {
  if (again.processes() != first.processes()) {
    return fmt::format("it has {} processes, the first run {}", again.processes(),
                       first.processes());
  }
  std::vector<std::int64_t> steps;
  std::set_union(first.steps().begin(), first.steps().end(), again.steps().begin(),
                 again.steps().end(), std::back_inserter(steps));
  for (const std::int64_t step : steps) {
    std::string other = first_other_observation(*again.at(step), *first.at(step));
    if (!other.empty()) return other;
  }
  return "";
}

std::vector<Finding> findings_of(const CellRecord& cell) {
  std::vector<Finding> findings;
  for (const ClaimResult& result : cell.results) {
    findings.insert(findings.end(), result.findings.begin(), result.findings.end());
  }
  return findings;
}

bool is_same(const Finding& a, const Finding& b) {
  return a.claim == b.claim && a.step == b.step && a.tensor == b.tensor && a.groups == b.groups &&
         a.ratio == b.ratio;
}

std::string first_other_finding(const CellRecord& again, const CellRecord& first) {
  const std::vector<Finding> before = findings_of(first);
  const std::vector<Finding> after = findings_of(again);
  const auto [a, b] =
      std::mismatch(before.begin(), before.end(), after.begin(), after.end(), is_same);
  if (a == before.end() && b == after.end()) return "";
  return fmt::format("the first run found: {}; this one: {}",
                     a == before.end() ? "nothing more" : a->sentence,
                     b == after.end() ? "nothing more" : b->sentence);
}

}  // namespace

void check_repetition(CellRecord& cell, const StepReader* evidence, const CellRecord& first,
                      const StepReader* first_evidence) {
  if (!evidence || !first_evidence) return;
  std::string other = first_other_finding(cell, first);
  if (other.empty() && all_finished(cell.exits) && all_finished(first.exits)) {
    other = first_other_observation(*evidence, *first_evidence);
  }
  add_check(cell, "repeats the first run", other);
}

}  // namespace lockstep
