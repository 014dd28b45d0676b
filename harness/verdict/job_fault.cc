#include "harness/verdict/job_fault.h"

#include <utility>

namespace lockstep {

ClaimResult violated_by(Finding finding) {
  ClaimResult result;
  result.claim = finding.claim;
  result.verdict = Verdict::violated;
  result.comparisons = finding.places;
  result.findings.push_back(std::move(finding));
  return result;
}

}  // namespace lockstep
