#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/record/component_sums.h"
#include "harness/record/digest.h"
#include "harness/record/dtype.h"

namespace lockstep {

/// Adds up the components of a part of a tensor in one pass over its bytes: each piece of 4 KiB is
/// digested and summed while it is in the L1 cache.
class ComponentPass {
 public:
  /// What is computed, in addition to the sums of components of a floating type.
  struct Wanted {
    bool digest = false;
    bool sketch = false;
  };

  ComponentPass(DType component, Wanted wanted) : component_(component), wanted_(wanted) {}

  /// Adds consecutive components, the first of which is component `begin` of the global tensor.
  void add(std::span<const std::byte> bytes, std::uint64_t begin);

  const Digest& digest() const { return digest_; }

  /// The statistics in it are those of a floating type alone.
  const ComponentSums& sums() const { return sums_; }

 private:
  void add_piece(std::span<const std::byte> bytes, std::uint64_t begin);
  void add_blocks(const std::byte* bytes, std::size_t blocks, std::uint64_t first);

  DType component_;
  Wanted wanted_;
  std::size_t number_ = 0;  ///< of the next component in the part
  Digest digest_;
  ComponentSums sums_;
};

}  // namespace lockstep
