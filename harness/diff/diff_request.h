#pragma once

#include <array>
#include <cstdint>

#include "harness/diff/diff_side.h"

namespace lockstep {

/// How two jobs are compared.
struct DiffRequest {
  NameMap names;            ///< of A's tensors in B
  std::int64_t offset = 0;  ///< step of B minus step of A
  std::int64_t until = 0;   ///< the last step of A; 0: the last that both have
  /// Second runs of A and B, which observed modules in some steps. Null: A and B themselves did, if
  /// any.
  std::array<const SideFiles*, 2> with_modules{};
  bool are_same_values = false;  ///< other bits are different, whatever rounding may do
};

}  // namespace lockstep
