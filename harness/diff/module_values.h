#pragma once

#include <compare>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/diff/whole_tensors.h"
#include "harness/judge/evidence/step_view.h"
#include "reports/record/claim.h"

namespace lockstep {

/// An output of a forward pass of a module, or the gradient that arrives there.
struct ModuleKey {
  Kind kind = Kind::module_output;
  std::string name;  ///< "layer.0", "layer.0#2[1]": of the second pass in the step

  auto operator<=>(const ModuleKey&) const = default;
};

/// The outputs of modules of one rank in a step, and the gradients that arrive at them.
class ModuleValues {
 public:
  ModuleValues(const StepView& step, int rank);

  /// In the order of execution: all outputs before all gradients.
  const std::vector<std::pair<ModuleKey, WholeTensor>>& all() const { return values_; }

  /// Null: it was not observed.
  const WholeTensor* find(const ModuleKey& key) const;

  /// The root mean square of the norms of a kind.
  double typical_norm(Kind kind) const;

 private:
  std::vector<std::pair<ModuleKey, WholeTensor>> values_;
  std::map<ModuleKey, std::size_t> places_;
};

/// Of all ranks.
std::vector<ModuleValues> module_values(const StepView& step);

/// "layer.0[1]" for "layer.0#2[1]": the same for all forward passes of a step.
std::string without_pass(const std::string& name);

}  // namespace lockstep
