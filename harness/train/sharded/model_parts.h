#pragma once

#include <vector>

#include "harness/train/sharded/unreduced_model.h"

namespace lockstep {

/// A model of which each rank trains some modules: the stage of a pipeline, or some experts. Others
/// are on all ranks. Every rank holds the whole model, and leaves the rest alone.
class ModelParts : public UnreducedModel {
 public:
  /// `own` are modules of `module` that this rank trains, `copied` those that all ranks train.
  /// Keeps a reference to `module`.
  ModelParts(Module& module, const std::vector<Module*>& own, const std::vector<Module*>& copied);
};

}  // namespace lockstep
