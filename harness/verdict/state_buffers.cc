#include "harness/verdict/state_buffers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "harness/judge/judge.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/verdict/division_of_model.h"
#include "harness/verdict/symptom.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFewestApart = 2;

/// In which steps ranks differ in a buffer.
struct StepsApart {
  std::int64_t differing = 0;  ///< steps
  bool differs_last = false;
};

bool last_to_the_end(const StepsApart& apart) {
  return apart.differs_last && apart.differing >= kFewestApart;
}

/// By name.
std::map<std::string, StepsApart> steps_apart(const StepReader& evidence, const Claim& claim) {
  std::map<std::string, StepsApart> apart;
  for (const std::int64_t number : evidence.steps()) {
    const auto step = evidence.at(number);
    for (const HeldTensor& tensor : held_tensors(*step, claim, {})) {
      if (tensor.holders.size() < 2 || !is_comparable(tensor)) continue;
      StepsApart& one = apart[tensor.holders.begin()->second->name];
      one.differs_last = groups_of(tensor).size() > 1;
      if (one.differs_last) ++one.differing;
    }
  }
  return apart;
}

/// Names of the observed buffers that no rank has to share, or that agree again.
std::set<std::string> not_claimed(const JobRecord& job, const StepReader& evidence,
                                  const Claim& claim) {
  const auto all_apart = steps_apart(evidence, claim);
  std::set<std::string> names;
  for (const auto& [tensor, ranks] : evidence.tensors()) {
    if (tensor.kind != Kind::buffer) continue;
    const auto apart = all_apart.find(tensor.name);
    const bool is_state = std::ranges::binary_search(job.state_buffers, tensor.name);
    const bool is_claimed = is_state && apart != all_apart.end() && last_to_the_end(apart->second);
    if (!is_claimed) names.insert(tensor.name);
  }
  return names;
}

}  // namespace

std::optional<BuffersApart> buffers_apart(const JobRecord& job, const CellEvidence& judged) {
  if (job.state_buffers.empty()) return std::nullopt;
  if (division_of_model(job, *judged.evidence, job.coverage) == Division::other) {
    return std::nullopt;
  }
  const Claim claim = agree_across_ranks(Kind::buffer, Phase::pre_forward);
  CellEvidence buffers = judged;
  buffers.claims = {claim};
  buffers.unshared = not_claimed(job, *judged.evidence, claim);
  const CellFacts facts = facts_of(buffers);
  const Judgement judgement = judge(buffers, facts);
  const ClaimResult& result = judgement.results.front();
  if (result.verdict != Verdict::violated) return std::nullopt;
  return BuffersApart{result, symptom_of(facts, {result}, judgement.wrong_values)};
}

}  // namespace lockstep
