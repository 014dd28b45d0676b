#include "harness/judge/values/reference_run.h"

#include <cstdint>
#include <tuple>

#include "harness/judge/evidence/observations.h"

namespace lockstep {

namespace {

/// Whether a gradient may move its parameter: it exists and is not known to be all zeros.
bool may_train(const Observation& gradient) {
  if (is_undefined(gradient)) return false;
  return !gradient.not_comparable.empty() || gradient.statistics.norm > 0 ||
         gradient.statistics.non_finite > 0;
}

/// Key shared by the reference and its perturbed copies: kind, phase, micro-batch, name.
using SharedKey = std::tuple<Kind, Phase, std::int64_t, std::string>;

SharedKey shared_key(const Observation& o) { return {o.kind, o.phase, o.micro_batch, o.name}; }

/// Whether a perturbed copy has other values than the reference, whose `digests` these are.
bool has_moved_from(const std::map<SharedKey, Digest>& digests, const Observation& copy) {
  if (is_about_one_rank(copy)) return false;
  const auto plain = digests.find(shared_key(copy));
  return plain != digests.end() && plain->second != copy.digest;
}

}  // namespace

bool is_about_one_rank(const ObservedTensor& tensor) { return !tensor.replica_group.empty(); }

ReferenceRun::ReferenceRun(const StepReader& steps, int world_size)
    : steps_(steps), world_size_(world_size) {
  for (const std::int64_t step : steps.steps()) see(steps.at(step));
}

void ReferenceRun::see(const std::shared_ptr<const StepView>& step) {
  std::map<SharedKey, Digest> digests;
  for (const Observation& observation : step->observations(0)) {
    const bool is_gradient = observation.kind == Kind::gradient;
    if (is_gradient && may_train(observation)) trained_.insert(observation.name);
    if (!is_about_one_rank(observation)) {
      observed_.emplace(observation.kind, observation.phase);
      digests[shared_key(observation)] = observation.digest;
    } else if (observation.kind == Kind::parameter && observation.phase == Phase::post_backward) {
      initial_[observation.name] = {step, &observation};
    }
  }
  for (int rank = 1; rank < step->processes(); ++rank) {
    for (const Observation& copy : step->observations(rank)) {
      if (has_moved_from(digests, copy)) moved_.emplace(copy.kind, copy.phase);
    }
  }
}

const Observation* ReferenceRun::initial(const std::string& name) const {
  const auto found = initial_.find(name);
  return found == initial_.end() ? nullptr : found->second.observation;
}

const SnapshotTensor* ReferenceRun::initial_value(const std::string& name) const {
  const auto found = initial_.find(name);
  return found == initial_.end() ? nullptr
                                 : found->second.step->kept(0, *found->second.observation);
}

}  // namespace lockstep
