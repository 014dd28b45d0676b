#include "harness/verdict/job_comparisons.h"

#include <fmt/format.h>

namespace lockstep {

namespace {

Symptom symptom_of(const JobComparison& comparison) {
  const Finding& finding = comparison.result.findings.front();
  Symptom symptom;
  symptom.kind = SymptomKind::agree_but_wrong;
  symptom.step = symptom.wrong_step = finding.step;
  symptom.tensor = finding.tensor;
  symptom.ratio = finding.ratio;
  symptom.cosine = finding.cosine;
  symptom.text = fmt::format("differs from {} from step {} on: {}{}{}", comparison.folder,
                             finding.step, finding.tensor,
                             finding.ratio_in_words.empty() ? "" : ", ", finding.ratio_in_words);
  return symptom;
}

}  // namespace

void add_comparisons(JobRecord& job) {
  for (const JobComparison& one : job.comparisons) {
    if (one.with == ComparedWith::repetition) {
      job.notes.push_back(one.sentence);
      continue;
    }
    job.results.push_back(one.result);
    const bool is_first =
        job.symptom.kind == SymptomKind::right || job.symptom.kind == SymptomKind::undecided;
    if (is_first && one.result.verdict == Verdict::violated) job.symptom = symptom_of(one);
  }
}

}  // namespace lockstep
