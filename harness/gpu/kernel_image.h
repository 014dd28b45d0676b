#pragma once

#include <cstddef>
#include <span>

namespace lockstep::gpu {

/// The compiled kernel `lockstep_measure`, as the driver of a GPU takes it: machine code for
/// several architectures, and PTX for later ones. Empty if nvcc was missing when Lockstep was
/// built: a zero follows, which no driver takes for an image.
std::span<const std::byte> kernel_image();

}  // namespace lockstep::gpu
