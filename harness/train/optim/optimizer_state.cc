#include "harness/train/optim/optimizer_state.h"

#include <fmt/format.h>

#include "reports/base/error.h"

namespace lockstep {

void require_state(const OptimizerState& state, std::size_t parameters,
                   const std::set<std::size_t>& sizes) {
  if (state.size() != parameters) {
    throw internal_error(
        fmt::format("a state of {} parameters for an optimizer of {}", state.size(), parameters));
  }
  for (const std::vector<at::Tensor>& tensors : state) {
    if (sizes.contains(tensors.size())) continue;
    throw internal_error(fmt::format(
        "a state with {} tensors of a parameter is another optimizer's", tensors.size()));
  }
}

}  // namespace lockstep
