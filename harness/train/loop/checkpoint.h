#pragma once

#include <filesystem>

#include "harness/train/nn/module.h"

namespace lockstep {

/// Writes the parameters and buffers of `module` by name, bit for bit, as a safetensors file. An
/// existing file is always complete. A tensor registered twice is written once, under its first
/// name. Optimizer state is not written. Called by one rank; does not communicate.
///
/// Throws Error (usage) if the file cannot be written, Error (internal) if a tensor has no bytes to
/// store.
void save_checkpoint(const Module& module, const std::filesystem::path& path);

/// Copies a file of `save_checkpoint` into the parameters and buffers of `module`, in place and
/// outside autograd: they remain the same tensors, on their devices, and keep their gradients.
///
/// Throws Error (usage) if the file is missing or malformed, if it lacks a tensor of the module or
/// has an extra one, or if dtype or shape differ; the module is unchanged then.
void load_checkpoint(Module& module, const std::filesystem::path& path);

}  // namespace lockstep
