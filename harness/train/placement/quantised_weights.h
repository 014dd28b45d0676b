#pragma once

#include <ATen/core/Tensor.h>

#include "harness/train/nn/module.h"

namespace lockstep {

/// Lockstep's own check, in its own words, for what accelerate refuses too, whose sentence it
/// quotes: throws Refusal, naming the part, its device and `training_device`, when quantised
/// weights of `model` are on another device than the one that trains.
void check_quantised_weights(const Module& model, at::Device training_device);

}  // namespace lockstep
