#include "harness/verdict/state_buffers.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "harness/judge/judge.h"
#include "harness/verdict/division_of_model.h"
#include "harness/verdict/steps_apart.h"
#include "harness/verdict/symptom.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFewestApart = 2;

/// Names of the state buffers that ranks hold others of, up to the last step.
std::set<std::string> apart_to_the_end(const JobRecord& job, const StepReader& evidence,
                                       const Claim& claim) {
  StepsApartByName courses(claim);
  for (const std::int64_t number : evidence.steps()) courses.see(*evidence.at(number));
  std::set<std::string> names;
  for (const auto& [name, course] : courses.by_name()) {
    const bool lasts = course.differing >= kFewestApart && course.last == course.last_compared;
    if (lasts && std::ranges::binary_search(job.state_buffers, name)) names.insert(name);
  }
  return names;
}

std::set<std::string> all_but(const std::set<std::string>& names, const StepReader& evidence) {
  std::set<std::string> others;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind == Kind::buffer && !names.contains(tensor.name)) others.insert(tensor.name);
  }
  return others;
}

}  // namespace

std::optional<JobFault> buffers_apart(const JobRecord& job, const CellEvidence& judged) {
  if (job.state_buffers.empty()) return std::nullopt;
  const StepReader& evidence = *judged.evidence;
  if (division_of_model(job, evidence, job.coverage) == Division::other) return std::nullopt;
  const Claim claim = agree_across_ranks(Kind::buffer, Phase::pre_forward);
  const std::set<std::string> apart = apart_to_the_end(job, evidence, claim);
  if (apart.empty()) return std::nullopt;
  CellEvidence buffers = judged;
  buffers.claims = {claim};
  buffers.unshared = all_but(apart, evidence);
  const CellFacts facts = facts_of(buffers);
  const Judgement judgement = judge(buffers, facts);
  const ClaimResult& result = judgement.results.front();
  if (result.verdict != Verdict::violated) return std::nullopt;
  return JobFault{result, symptom_of(facts, {result}, judgement.wrong_values)};
}

}  // namespace lockstep
