#pragma once

#include <ATen/core/Tensor.h>

#include "harness/train/nn/module.h"

namespace lockstep {

/// Throws Refusal, naming the part, its device and `training_device`, when quantised weights of
/// `model` are on another device than the training one. The check is Lockstep's, in its own words;
/// accelerate refuses this, too, and its sentence is quoted.
void check_quantised_weights(const Module& model, at::Device training_device);

}  // namespace lockstep
