#include "harness/gpu/kernel_image.h"

#ifdef LOCKSTEP_KERNEL_IMAGE

// clang-format off
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".hidden kLockstepKernelImage\n"
    ".global kLockstepKernelImage\n"
    "kLockstepKernelImage:\n"
    ".incbin \"" LOCKSTEP_KERNEL_IMAGE "\"\n"
    ".hidden kLockstepKernelImageEnd\n"
    ".global kLockstepKernelImageEnd\n"
    "kLockstepKernelImageEnd:\n"
    ".byte 0\n"
    ".popsection\n");
// clang-format on

extern "C" const std::byte kLockstepKernelImage[];
extern "C" const std::byte kLockstepKernelImageEnd[];

namespace lockstep::gpu {

std::span<const std::byte> kernel_image() {
  return {kLockstepKernelImage, kLockstepKernelImageEnd};
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
