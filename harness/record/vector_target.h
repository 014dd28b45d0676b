#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "harness/record/component_sums.h"
#include "harness/record/digest.h"
#include "harness/record/dtype.h"

namespace lockstep {

/// The inner loops over a tensor's bytes, compiled for one instruction set. All targets give the
/// same bits; docs/architecture.md says why.
struct VectorTarget {
  /// Adds whole blocks of 64 components. `first`: number of the first block in the global tensor.
  /// The first component counts as component 0 for the lanes of `squares`. Returns the sums that
  /// `add_words` gives, zeros unless they are wanted. Requires: the blocks lie in one block of the
  /// digest.
  using AddBlocks = Digest (*)(const std::byte* bytes, std::size_t blocks, std::uint64_t first,
                               TensorParts wanted, ComponentSums& sums);

  std::string_view name;  ///< "scalar", "SSE4", "AVX2", "AVX-512", "NEON"
  bool (*is_supported)();

  /// Sums of the products of words and place keys, in both lanes. Requires: `place` + `words` <=
  /// `kDigestBlock`.
  Digest (*add_words)(const std::byte* bytes, std::size_t words, std::size_t place);
  AddBlocks float32;
  AddBlocks bfloat16;
  AddBlocks float16;
  AddBlocks float64;

  /// Adds whole numbers to the sums that are theirs. Requires: `component` has no fraction.
  void (*add_whole)(DType component, const std::byte* bytes, std::size_t count,
                    ComponentSums& sums);
};

/// Those that this processor has, the fastest first and the scalar one last.
std::span<const VectorTarget* const> supported_targets();

/// The one in use: the fastest.
const VectorTarget& vector_target();

/// Uses another one from now on, for tests and benchmarks: other threads may see either.
void use_target(const VectorTarget& target);

}  // namespace lockstep
