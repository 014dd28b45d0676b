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

Symptom symptom_of_wrong(const Finding& finding, std::string text) {
  Symptom symptom;
  symptom.kind = SymptomKind::agree_but_wrong;
  symptom.step = symptom.wrong_step = finding.step;
  symptom.tensor = finding.tensor;
  symptom.text = std::move(text);
  return symptom;
}

JobFault fault_of(Finding finding, std::string text) {
  Symptom symptom = symptom_of_wrong(finding, std::move(text));
  return {violated_by(std::move(finding)), std::move(symptom)};
}

}  // namespace lockstep
