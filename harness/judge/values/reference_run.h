#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// What must be known of all steps of a reference before one of them can be compared with.
class ReferenceRun {
 public:
  /// `steps`: rank 0 is the reference, the others its perturbed copies. They outlive this.
  ReferenceRun(const StepReader& steps, int world_size);

  const StepReader& steps() const { return steps_; }
  int world_size() const { return world_size_; }

  /// Whether a gradient that may move it was observed of the parameter of that name.
  bool is_trained(const std::string& name) const { return trained_.contains(name); }

  /// A parameter before the first step; null where that is not on record.
  const Observation* initial(const std::string& name) const;
  /// Its value; null where it was not kept.
  const SnapshotTensor* initial_value(const std::string& name) const;

  /// Whether the reference observed anything that a claim is about.
  bool has_observed(const Claim& claim) const { return observed_.contains(place_of(claim)); }

  /// Whether any perturbed copy moved any of that. Where none did, nothing says how far roundings
  /// of earlier steps are carried.
  bool has_moved(const Claim& claim) const { return moved_.contains(place_of(claim)); }

 private:
  using Place = std::pair<std::optional<Kind>, std::optional<Phase>>;

  /// The view keeps alive what the observation is part of.
  struct Initial {
    std::shared_ptr<const StepView> step;
    const Observation* observation = nullptr;
  };

  static Place place_of(const Claim& claim) { return {claim.kind, claim.phase}; }
  void see(const std::shared_ptr<const StepView>& step);

  const StepReader& steps_;
  int world_size_ = 0;
  std::set<std::string> trained_;
  std::map<std::string, Initial> initial_;
  std::set<Place> observed_;
  std::set<Place> moved_;
};

/// Whether the reference noted this of the data of one rank alone.
bool is_about_one_rank(const ObservedTensor& tensor);

}  // namespace lockstep
