#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// Facts about all steps of a reference that every comparison with one step needs.
class ReferenceRun {
 public:
  /// `steps`: rank 0 is the reference, the others its perturbed copies. They outlive this.
  ReferenceRun(const StepReader& steps, int world_size);

  const StepReader& steps() const { return steps_; }
  int world_size() const { return world_size_; }

  /// Whether a gradient that can change the parameter of that name was observed.
  bool is_trained(const std::string& name) const { return trained_.contains(name); }

  /// A parameter before the first step; null if not recorded.
  const Observation* initial(const std::string& name) const;
  /// Its value; null if there is no snapshot.
  const SnapshotTensor* initial_value(const std::string& name) const;

  /// Whether the reference observed any tensor of a claim.
  bool has_observed(const Claim& claim) const { return observed_.contains(place_of(claim)); }

  /// Whether any perturbed copy moved any of them. If none did, the propagation of rounding errors
  /// between steps is unknown.
  bool has_moved(const Claim& claim) const { return moved_.contains(place_of(claim)); }

 private:
  using Place = std::pair<std::optional<Kind>, std::optional<Phase>>;

  /// The view keeps the observation's memory alive.
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

/// Whether the reference recorded this for the data of one rank alone.
bool is_about_one_rank(const ObservedTensor& tensor);

}  // namespace lockstep
