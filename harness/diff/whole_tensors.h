#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/compare/value.h"
#include "harness/judge/evidence/step_view.h"
#include "reports/record/claim.h"

namespace lockstep {

/// A tensor of a model in a step, whatever the layout.
struct WholeTensorKey {
  Phase phase = Phase::pre_forward;
  Kind kind = Kind::parameter;
  std::string name;

  auto operator<=>(const WholeTensorKey&) const = default;
};

/// Of the tensor itself, or of an optimizer's state of it.
std::string parameter_of(const WholeTensorKey& key);

/// A tensor put together from the parts that ranks hold.
struct WholeTensor : Value {
  /// Of a checkpoint: where its elements are. Null: it is of a job, or they are in no order.
  std::shared_ptr<const CheckpointTensor> stored = {};
  int rank = 0;  ///< the first that holds it, or its first part
  /// If it is not in parts: what other ranks hold instead, up to `kMostValues`.
  std::vector<WholeTensor> others = {};

  static constexpr std::size_t kMostValues = 16;
};

/// The tensors of a step in the order of execution, and their places in it by key.
class WholeTensors {
 public:
  /// Adds up the parts of all ranks. Copies must have the same bits; parts must cover the tensor
  /// once. Values of micro-batches are left out.
  explicit WholeTensors(const StepView& step);

  /// Tensors that are whole already. Of several with one key the first counts.
  explicit WholeTensors(std::vector<std::pair<WholeTensorKey, WholeTensor>> tensors);
  WholeTensors() = default;

  const std::vector<std::pair<WholeTensorKey, WholeTensor>>& all() const { return tensors_; }

  /// Null: it was not observed.
  const WholeTensor* find(const WholeTensorKey& key) const;

  /// Makes one tensor of several, whose order in it is unknown to their digests: only its norm and
  /// size are known then, and of checkpoints where its elements are, if the parts follow each other
  /// along the first dimension. Without all of `parts` nothing changes.
  void fuse(const std::vector<std::string>& parts, const std::string& name);

 private:
  void rebuild();

  std::vector<std::pair<WholeTensorKey, WholeTensor>> tensors_;
  std::map<WholeTensorKey, std::size_t> places_;
};

}  // namespace lockstep
