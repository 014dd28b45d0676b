#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

/// Passes the inputs of a module on, so that backward calls `after` when it has all their
/// gradients. By then the gradients of the module's parameters are complete. Inputs that require no
/// gradient pass unchanged. If none does, or without grad mode, `after` is never called.
std::vector<at::Tensor> watch_inputs(const std::vector<at::Tensor>& inputs,
                                     std::function<void()> after);

/// Lets backward call `before` when it reaches an output of a module, once per output that requires
/// a gradient.
void watch_outputs(const std::vector<at::Tensor>& outputs, const std::function<void()>& before);

/// Lets the running backward call `at_end` at its end. In a nested backward: at the end of that
/// one.
void at_end_of_backward(std::function<void()> at_end);

}  // namespace lockstep
