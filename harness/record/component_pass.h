#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/record/component_sums.h"
#include "harness/record/digest.h"
#include "harness/record/dtype.h"

namespace lockstep {

/// Adds up the components of a part of a tensor in one pass over its bytes.
class ComponentPass {
 public:
  ComponentPass(DType component, TensorParts wanted) : component_(component), wanted_(wanted) {}

  /// Adds consecutive components, the first of which is component `begin` of the global tensor.
  void add(std::span<const std::byte> bytes, std::uint64_t begin);

  const Digest& digest() const { return digest_; }

  const ComponentSums& sums() const { return sums_; }

 private:
  void add_piece(std::span<const std::byte> bytes, std::uint64_t begin);
  void add_single(std::span<const std::byte> bytes, std::uint64_t begin);
  void add_blocks(std::span<const std::byte> bytes, std::uint64_t begin);
  Digest add_decoded(std::span<const std::byte> bytes, std::uint64_t begin);

  DType component_;
  TensorParts wanted_;
  std::size_t number_ = 0;  ///< of the next component in the part
  Digest digest_;
  ComponentSums sums_;
};

}  // namespace lockstep
