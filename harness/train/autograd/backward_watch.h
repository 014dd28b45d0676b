#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

/// Passes the inputs of a module on, so that backward calls `after` when it has all their
/// gradients: those of the module's parameters are there by then. Inputs that require no gradient
/// pass as they are; where none does, or without grad mode, nobody is told.
std::vector<at::Tensor> watch_inputs(const std::vector<at::Tensor>& inputs,
                                     std::function<void()> after);

/// Has backward call `before` when it comes to one of the outputs of a module, for each that
/// requires a gradient.
void watch_outputs(const std::vector<at::Tensor>& outputs, const std::function<void()>& before);

/// Has the backward that is running call `at_end` when it ends. In a nested one: when that ends.
void at_end_of_backward(std::function<void()> at_end);

}  // namespace lockstep
