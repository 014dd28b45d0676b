#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/values/held_tensors.h"

namespace lockstep {

/// A parameter on the ranks that hold it.
struct ParameterOfRanks {
  std::size_t ranks = 0;
  std::optional<Digest> agreed;  ///< the value of all of them; absent: they differ
};

/// Gradients of a job that ranks reduce inside the optimizer's step, after they were observed: in
/// the optimizer itself, or in a hook before its step. They differ before the step, and that is no
/// fault. Of a step that is told by three facts together:
///   - the parameter agrees after the step;
///   - it was changed in the step, because a parameter that stays as it is agrees anyway, such as
///     one with a learning rate of 0;
///   - each rank called a collective inside the step, over groups that have as many ranks as hold
///     the tensor, or several groups whose sizes have that product.
/// A tensor is reduced there if the facts are so in one step at least, and in no step before that
/// its parameter differs, or changed without a collective. If the parameter differs later, that is
/// the finding. A gradient of which each rank held a summand, and which is later said to be whole,
/// is reduced by what its ranks say: that is a fault if they differ. It may be reduced there if
/// collectives were called but the parameter never changed, if those inside the step were not
/// counted, or if they were called since the last step alone and the gradients differ in all steps:
/// a reduction may begin in the backward pass and end in the step.
class ReducedInStep {
 public:
  /// `cell` outlives this.
  explicit ReducedInStep(const CellEvidence& cell) : cell_(cell) {}

  /// Each rank holds a summand of the gradient in a step, which is seen next.
  void note_summand(const HeldTensor& gradient) {
    last_summands_.insert_or_assign(gradient.tensor->name, gradient.step);
  }

  /// The last step in which each rank held a summand of the gradient; 0: there is none.
  std::int64_t last_summand(const Interned<std::string>& gradient) const;

  /// Sees a step in which gradients differ. `differing`: these.
  void see(const StepView& step, const std::vector<const HeldTensor*>& differing);

  /// Whether the tensor is, or may be, reduced inside the step.
  bool includes(const HeldTensorKey& gradient) const;

  using IsLeftOut = std::function<bool(const HeldTensorKey& gradient)>;

  /// Number of those, without tensors whose difference has another reason.
  std::int64_t count(const IsLeftOut& is_left_out) const;

  /// Why it is unknown whether ranks reduce gradients inside the step, without such tensors; empty:
  /// it is known.
  std::string unknown_in_words(const IsLeftOut& is_left_out) const;

 private:
  /// The steps of a tensor whose gradients differ.
  struct Steps {
    bool is_reduced = false;       ///< in one of them
    bool is_apart = false;         ///< before that the parameter differs, or changed without a call
    bool is_begun_before = false;  ///< collectives were called since the last step alone
    std::size_t count = 0;
    std::string unknown;  ///< why it is open in one of them
  };
  /// Of a rank in a step.
  ///   none       there was none over enough ranks
  ///   enough     there was one inside the step
  ///   before     there was one since the last step
  ///   uncounted  unknown
  enum class Calls { none, enough, before, uncounted };

  void remember_parameters(std::int64_t step);
  Calls calls_in(std::int64_t step, const HolderRows& holders) const;
  Calls calls_of(int rank, std::int64_t step, std::size_t holders) const;
  static void judge(bool is_changed, Calls calls, Steps& steps);

  const CellEvidence& cell_;
  std::map<HeldTensorKey, Steps> tensors_;
  std::map<Interned<std::string>, std::int64_t> last_summands_;  ///< steps, by name
  std::int64_t remembered_ = 0;                                  ///< step
  std::map<HeldTensorKey, ParameterOfRanks> before_;             ///< after that step
};

}  // namespace lockstep
