#include "harness/train/rank/cuda_random.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kBlock = 256;
constexpr std::uint64_t kPerCall = 4;
constexpr std::int64_t kLargest = std::int64_t{1} << 29;

using Words = std::array<std::uint32_t, 4>;
using Normals = std::array<float, 4>;

Words words(std::uint64_t low, std::uint64_t high) {
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}

Words philox_round(const Words& counter, const Words& key) {
  const Words product = words(std::uint64_t{0xD2511F53} * counter[0],  //
                              std::uint64_t{0xCD9E8D57} * counter[2]);
  return {product[3] ^ counter[1] ^ key[0], product[2],  //
          product[1] ^ counter[3] ^ key[1], product[0]};
}

// Computed in double and rounded once: the bits are the same on every machine. The float functions
// of a C library do not promise that.
float logarithm(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }
float sine(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
float cosine(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }

std::array<float, 2> box_muller(std::uint32_t x, std::uint32_t y) {
  constexpr float kTo1 = 2.3283064e-10f;
  constexpr float kTo2Pi = 2.3283064e-10f * 6.2831855f;
  // CUDA's compiler contracts a * b + c to one rounding.
  const float u = std::fma(static_cast<float>(x), kTo1, kTo1 / 2);
  const float v = std::fma(static_cast<float>(y), kTo2Pi, kTo2Pi / 2);
  const float s = std::sqrt(-2.0f * logarithm(u));
  return {sine(v) * s, cosine(v) * s};
}

Normals normals(const Words& random) {
  const auto [a, b] = box_muller(random[0], random[1]);
  const auto [c, d] = box_muller(random[2], random[3]);
  return {a, b, c, d};
}

std::uint64_t rounded_up(std::uint64_t dividend, std::uint64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

/// The number of threads that draw `elements` numbers.
std::uint64_t threads_for(std::int64_t elements, const std::optional<CudaGrid>& grid) {
  const std::uint64_t blocks = rounded_up(static_cast<std::uint64_t>(elements), kBlock);
  if (!grid) return blocks * kBlock;
  const std::uint64_t per_multiprocessor = grid->threads_per_multiprocessor / kBlock;
  return std::min(grid->multiprocessors * per_multiprocessor, blocks) * kBlock;
}

void require_known_layout(std::int64_t elements, const std::optional<CudaGrid>& grid) {
  if (!grid && elements > kElementsOnAnyGpu) {
    throw internal_error(fmt::format(
        "the CUDA random numbers of {} elements depend on the GPU: without a CudaGrid at most {}",
        elements, kElementsOnAnyGpu));
  }
  if (elements > kLargest) {
    throw internal_error(
        fmt::format("CUDA random numbers of {} elements are drawn in pieces: at "
                    "most {} are imitated",
                    elements, kLargest));
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t subsequence,
                                    std::uint64_t offset) {
  Words counter = words(offset, subsequence);
  Words key = words(seed, 0);
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

CudaGenerator::CudaGenerator(std::uint64_t seed, std::optional<CudaGrid> grid)
    : seed_(seed), grid_(grid) {
  if (grid && (grid->multiprocessors < 1 || grid->threads_per_multiprocessor < int{kBlock})) {
    throw internal_error(fmt::format("no GPU has {} multiprocessors of {} threads",
                                     grid->multiprocessors, grid->threads_per_multiprocessor));
  }
}

at::Tensor CudaGenerator::randn(const std::vector<std::int64_t>& shape) {
  const std::int64_t elements = c10::multiply_integers(shape);
  require_known_layout(elements, grid_);
  at::Tensor tensor = at::empty(shape, at::kFloat);
  if (elements == 0) return tensor;
  // The kernel's loop: a thread draws four numbers at a time, one grid apart.
  const std::uint64_t threads = threads_for(elements, grid_);
  const auto numel = static_cast<std::uint64_t>(elements);
  const std::uint64_t calls = rounded_up(numel, threads * kPerCall);
  float* const out = tensor.mutable_data_ptr<float>();
  for (std::uint64_t call = 0; call < calls; ++call) {
    for (std::uint64_t thread = 0; thread < threads; ++thread) {
      const Normals drawn = normals(philox(seed_, thread, offset_ + call));
      for (std::uint64_t k = 0; k < kPerCall; ++k) {
        const std::uint64_t i = (call * kPerCall + k) * threads + thread;
        // torch scales by 1 and adds a mean of 0, which turns -0.0 into 0.0.
        if (i < numel) out[i] = drawn[k] + 0.0f;
      }
    }
  }
  offset_ += calls;
  return tensor;
}

at::Tensor randn_of_cuda(std::uint64_t seed, const std::vector<std::int64_t>& shape,
                         at::Device device) {
  if (!device.is_cuda()) return CudaGenerator(seed).randn(shape).to(device);
  at::Generator generator = at::detail::getCUDAHooks().getNewGenerator(device.index());
  generator.set_current_seed(seed);
  return at::randn(shape, generator, at::device(device).dtype(at::kFloat));
}

}  // namespace lockstep
