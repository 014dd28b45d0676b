#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/step_view.h"
#include "harness/judge/values/held_tensors.h"
#include "reports/record/charts.h"

namespace lockstep {

/// Collects the tensors in which ranks differ, step by step. It compares those that claims of
/// agreement are about.
class AgreementMapFold {
 public:
  AgreementMapFold(const CellEvidence& cell, std::vector<Claim> claims);

  /// Steps ascend. Returns the number of tensors that differ or are missing on some rank.
  std::int64_t see(const StepView& step);

  /// A step in which ranks agree.
  void see_agreed() { ++place_; }

  AgreementMap take();

 private:
  /// What the ranks call the same tensor: kind, phase, name, replica group and offset.
  using Key = std::tuple<Kind, Phase, std::string, std::string, std::vector<std::int64_t>>;

  struct Course {
    TensorCourse tensor;
    std::int64_t last_place = -1;  ///< of a step in which it differs
  };

  /// Of the values of a tensor in a step.
  struct Disagreement {
    bool is_missing = false;  ///< on a rank; else the values differ
    const HeldTensor* held = nullptr;
  };

  bool is_compared(const ObservedTensor& tensor, bool is_first_step = true) const;

  /// In the order in which they were observed.
  void note_in_order(const std::map<Key, Disagreement>& found, std::int64_t step);
  void note(const Key& key, std::int64_t step, bool is_missing, const HeldTensor& held);

  const CellEvidence& cell_;
  std::vector<Claim> claims_;
  std::int64_t place_ = -1;
  std::map<Key, std::size_t> places_;  ///< in `courses_`
  std::vector<Course> courses_;
  std::set<Key> left_out_;
};

}  // namespace lockstep
