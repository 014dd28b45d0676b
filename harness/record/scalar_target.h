#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/record/component_sums.h"
#include "harness/record/digest.h"
#include "harness/record/dtype.h"

namespace lockstep {

/// The definition of what every `VectorTarget` computes, component by component. It also serves
/// components beside whole blocks, and processors without vectors.

Digest scalar_words(const std::byte* bytes, std::size_t words, std::size_t place);

/// Adds `count` components of `component`, a floating type. `begin`: the first one in the global
/// tensor. `number`: its number in its part, modulo 8.
void add_components(DType component, const std::byte* bytes, std::size_t count, std::uint64_t begin,
                    std::size_t number, bool is_sketched, ComponentSums& sums);

/// Of components without fraction. See `ComponentSums::whole_squares`.
void add_whole_numbers(DType component, const std::byte* bytes, std::size_t count,
                       ComponentSums& sums);

template <DType component>
Digest scalar_blocks(const std::byte* bytes, std::size_t blocks, std::uint64_t first,
                     TensorParts wanted, ComponentSums& sums) {
  constexpr std::size_t kLanes = ComponentSums::kLanes;
  add_components(component, bytes, blocks * kLanes, first * kLanes, 0, wanted.sketch, sums);
  const std::size_t words = kLanes * item_size(component) / 4;  // of a block
  if (!wanted.digest) return {};
  return scalar_words(bytes, blocks * words, first * words % kDigestBlock);
}

}  // namespace lockstep
