#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// The size of a GPU. It decides the layout of random numbers over a tensor larger than one grid of
/// threads.
struct CudaGrid {
  int multiprocessors = 0;                ///< at least 1
  int threads_per_multiprocessor = 2048;  ///< at least 256
};

/// Every GPU draws this many elements with one thread each: one multiprocessor of 1024 threads, the
/// fewest of any GPU that torch supports.
inline constexpr std::int64_t kElementsOnAnyGpu = 1024;

/// Random numbers of a `torch.Generator(device="cuda")`, computed on the CPU: Philox 4x32-10 and
/// Box-Muller. They reproduce published tables drawn on a GPU. The integers and the layout are
/// exact. The numbers are those of correctly rounded float32 functions: a GPU's fast sine and
/// cosine are off by up to about 5e-7 and its logarithm by one unit in the last place, so a number
/// drawn there differs by up to about 3e-6.
///
/// Source: torch's ATen/native/cuda/DistributionTemplates.h; curand_kernel.h, curand_normal.h and
/// curand_philox4x32_x.h of CUDA 13.
class CudaGenerator {
 public:
  /// `grid` is the grid of the imitated GPU. Without it the generator imitates any GPU, and `randn`
  /// refuses tensors whose layout depends on it. Throws Error (internal) for a grid that no GPU
  /// has.
  explicit CudaGenerator(std::uint64_t seed, std::optional<CudaGrid> grid = std::nullopt);

  /// `torch.randn(shape, generator=self, device="cuda")`, float32, on the CPU; advances the
  /// generator as torch does. Throws Error (internal) if the layout is unknown: beyond
  /// kElementsOnAnyGpu without a grid, and beyond 2 GiB, where torch draws in pieces.
  at::Tensor randn(const std::vector<std::int64_t>& shape);

 private:
  std::uint64_t seed_;
  std::uint64_t offset_ = 0;  ///< calls of `philox` already used in every subsequence
  std::optional<CudaGrid> grid_;
};

/// The numbers of `CudaGenerator(seed).randn(shape)` on `device`: a GPU draws them itself.
at::Tensor randn_of_cuda(std::uint64_t seed, const std::vector<std::int64_t>& shape,
                         at::Device device);

/// One call of Philox 4x32-10. The key is `seed`, the counter `offset` below `subsequence`, each as
/// two words, the lower one first. `offset` counts calls; curand and torch count numbers, four to a
/// call.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t subsequence,
                                    std::uint64_t offset);

}  // namespace lockstep
