#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>

namespace lockstep {

/// Whether a name of a checkpoint is that of an optimizer's state: "optim.state.0.weight.exp_avg",
/// "app.optimizer.param_groups.0.lr".
bool is_of_optimizer(std::string_view name);

/// A name without the parts that wrappers add, as `watch` names parameters:
/// "module._orig_mod.layer.weight" is "layer.weight".
std::string without_wrappers(std::string_view name);

/// The parts of a training's state that hold its model, in the names of a checkpoint: "model.". By
/// which of them, left out on each side, the most names match; the shortest of several.
std::array<std::string, 2> model_prefixes(const std::set<std::string>& a,
                                          const std::set<std::string>& b);

/// The name without the prefix and without wrappers.
std::string model_name(std::string_view name, std::string_view prefix);

}  // namespace lockstep
