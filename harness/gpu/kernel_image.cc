#include "harness/gpu/kernel_image.h"

#ifdef LOCKSTEP_KERNEL_IMAGE

// clang-format off
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden lockstep_kernel_image\n"
    ".global lockstep_kernel_image\n"
    "lockstep_kernel_image:\n"
    ".incbin \"" LOCKSTEP_KERNEL_IMAGE "\"\n"
    ".hidden lockstep_kernel_image_end\n"
    ".global lockstep_kernel_image_end\n"
    "lockstep_kernel_image_end:\n"
    ".byte 0\n"
    ".popsection\n");
// clang-format on

extern "C" const std::byte lockstep_kernel_image[];
extern "C" const std::byte lockstep_kernel_image_end[];

namespace lockstep::gpu {

std::span<const std::byte> kernel_image() {
  return {lockstep_kernel_image, lockstep_kernel_image_end};
}

}  // namespace lockstep::gpu

#else

namespace lockstep::gpu {

std::span<const std::byte> kernel_image() {
  static constexpr std::byte kNothing{};
  return {&kNothing, 0};
}

}  // namespace lockstep::gpu

#endif
