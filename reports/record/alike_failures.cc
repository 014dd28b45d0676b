#include "reports/record/alike_failures.h"

#include <algorithm>

namespace lockstep {

namespace {

bool is_alike(const Finding& a, const Finding& b) {
  return b.failure && a.claim == b.claim && a.step == b.step && a.failure->how == b.failure->how &&
         a.failure->error == b.failure->error;
}

}  // namespace

std::vector<int> ranks_failing_alike(const Execution& execution, const Finding& finding) {
  if (finding.failure->error.empty()) return {finding.failure->rank};
  std::vector<int> ranks;
  for (const ClaimResult& result : execution.results) {
    for (const Finding& other : result.findings) {
      if (is_alike(finding, other)) ranks.push_back(other.failure->rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace lockstep
