#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/noise.h"
#include "harness/diff/compare_modules.h"
#include "harness/diff/compare_updates.h"
#include "harness/diff/diff_request.h"
#include "harness/diff/step_pairs.h"
#include "harness/diff/step_scales.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// The gradients of a parameter in all steps so far.
struct GradientsSoFar {
  bool are_equal = true;            ///< the same bits
  bool differ = false;              ///< by more than rounding
  bool was_whole = false;           ///< in a step, ranks of B had A's, or parts that add up to it
  std::optional<double> apart = 0;  ///< the largest distance, over their norm; absent: unknown
  std::int64_t step = 0;            ///< the last one
};

/// Compares two jobs step by step, in the order of the steps.
class StepComparison {
 public:
  /// `request` outlives this.
  StepComparison(const SideFiles& a, const SideFiles& b, const DiffRequest& request);

  std::vector<std::pair<std::int64_t, std::int64_t>> steps() const;

  /// `measured`: noise of repetitions in this step; empty: there are none.
  StepDifference compare(std::int64_t step, std::int64_t other, const Noise& measured);

  const Precondition& initial_weights() const { return initial_weights_; }
  const std::array<std::set<std::string>, 2>& parameters() const { return parameters_; }  ///< names
  const std::set<std::string>& without_evidence() const { return without_evidence_; }
  std::optional<double> gradient_scale() const { return gradient_scale_; }

 private:
  std::vector<TensorPair> compared_pairs(const SideStep& a, const SideStep& b);

  void begin(std::int64_t step, std::int64_t other, const SideStep& a, const SideStep& b);

  ModuleDifferences modules_of(const SideStep& a, const SideStep& b, std::int64_t step,
                               std::int64_t other, const StepRounding& rounding) const;

  JobSizes sizes_of(const SideStep& a, const SideStep& b) const;

  /// Gradients come before updates.
  void compare_all(const std::vector<TensorPair>& pairs, const SideStep& a, const SideStep& b,
                   const Noise& noise, StepDifference& found);

  TensorDifference compare_one(const TensorPair& pair, const SideStep& a, const SideStep& b,
                               const Noise& noise, double all, const JobSizes& sizes);

  /// What could be compared and does not have the same bits is different.
  static void hold_to_bits(const std::vector<TensorPair>& pairs, StepDifference& found);

  /// Gradients that a GradScaler scaled are observed before a fused step takes the scale back.
  void leave_out_scale(StepDifference& found);

  /// The bias of a fused layer has elements without evidence if keys are in it: its update is noise
  /// in part, while the gradient agrees as a whole, and the update of the layer's weight does not
  /// differ.
  void leave_out_fused_noise(const std::vector<TensorPair>& pairs, StepDifference& found);

  static bool has_right_weight(std::size_t bias, const std::vector<TensorPair>& pairs,
                               const StepDifference& found);

  /// An update and a state follow from all gradients so far: after one without evidence they have
  /// none, unless ranks of B disagree about it.
  void leave_out_noise(const TensorPair& pair, const GradientScales& scales, TensorDifference& one);

  static void call_noise(const char* cause, TensorDifference& one);

  /// A gradient or a loss. Ranks of B may rightly hold different gradients: some optimizers want
  /// only their own part. Then they do so in every step. If ranks had the whole one in a step
  /// before, one that is further from A's than rounding was reduced nowhere.
  TensorDifference compare_observed(const TensorPair& pair, const Noise& noise, double all,
                                    const JobSizes& sizes);

  static bool follows_gradients(const TensorDifference& one);

  /// If a gradient so far was undecided, so is what follows from it, unless ranks of B disagree
  /// about it.
  void follow_gradient(const std::string& parameter, TensorDifference& one);

  /// Whether ranks held the same values before their first step. Other ranks may hold parts of the
  /// model under the same names, some of which begin with the same values, such as 0.
  bool hold_copies(const SideStep& b);

  /// `reasons`: why the parameters before the step are not known in A, and in B.
  static std::string why_unknown(const std::optional<double>& apart,
                                 const std::vector<TensorPair>& pairs,
                                 const std::array<std::string, 2>& reasons);

  bool may_be_all_rounding(const std::vector<TensorPair>& pairs) const;

  static std::string why_far(double apart);

  TensorDifference compare_update(const TensorPair& pair, const UpdateInputs& inputs,
                                  const SideStep& a, const Noise& noise, double all,
                                  const JobSizes& sizes) const;

  static TensorDifference compare_state(const TensorPair& pair, const UpdateInputs& inputs,
                                        const Noise& noise, double all, const JobSizes& sizes);

  TensorDifference compare_buffer(const TensorPair& pair, const Noise& noise, double all,
                                  const JobSizes& sizes) const;

  void note_gradient(const TensorPair& pair, const TensorDifference& found);

  /// Of an update or a state, after its gradient.
  UpdateInputs inputs_of(const TensorPair& pair, const SideStep& a, const SideStep& b);

  static bool has_same_weights(const std::string& name, const SideStep& a, const SideStep& b);

  void note_first(const SideStep& a, const SideStep& b);

  static std::set<std::string> names_of(const WholeTensors& tensors);

  const SideFiles& a_;
  const SideFiles& b_;
  const DiffRequest& request_;
  SideSteps steps_a_;
  SideSteps steps_b_;
  int ranks_;
  bool is_by_element_;  ///< so are all optimizers
  bool has_muon_;       ///< on one side or both
  bool has_scale_;      ///< that the step of an optimizer takes back, on one side or both
  std::optional<double> gradient_scale_;
  bool is_first_ = true;
  std::int64_t last_ = 0;       ///< step
  bool is_from_start_ = false;  ///< all steps so far were compared, from the first one
  bool has_gap_ = false;        ///< between the steps that were compared
  StepRounding rounding_;       ///< of this step
  double gradients_apart_ = 0;  ///< in this step, as far as that is rounding
  std::set<std::string> gradients_of_ranks_;  ///< that are faults on ranks of B, in this step
  std::map<std::string, GradientsSoFar> gradients_;  ///< by parameter
  /// The largest norm so far, of an update or a state.
  std::map<std::pair<Compared, std::string>, double> largest_;
  std::optional<bool> hold_copies_;        ///< of B's ranks; absent: unknown so far
  std::set<std::string> told_statistics_;  ///< that differed in a step before
  DecidingBuffers buffers_;
  std::set<std::string> open_gradients_;    ///< of parameters, in any step so far
  std::set<std::string> without_evidence_;  ///< the same
  Precondition initial_weights_{Prerequisite::initial_weights, Likeness::undecided, "unknown"};
  std::array<std::set<std::string>, 2> parameters_;
};

}  // namespace lockstep
