#pragma once

#include <filesystem>

#include "harness/train/nn/module.h"

namespace lockstep {

/// Writes the parameters and buffers of `module` by name, bit for bit, as a safetensors file: a
/// file that is there is whole. A tensor that is registered twice is written once, under its first
/// name. Optimizer state is not written. One rank writes; nothing communicates.
///
/// Throws Error (usage) when the file cannot be written, Error (internal) when a tensor has no
/// bytes that can be kept.
void save_checkpoint(const Module& module, const std::filesystem::path& path);

/// Copies what `save_checkpoint` wrote into the parameters and buffers of `module`, in place and
/// outside autograd: they stay the same tensors, on their devices, and gradients stay.
///
/// Throws Error (usage) when the file is missing or malformed, when it lacks a tensor of the module
/// or has one more, or when dtype or shape differ; the module is unchanged then.
void load_checkpoint(Module& module, const std::filesystem::path& path);

}  // namespace lockstep
