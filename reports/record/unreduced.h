#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/names.h"

namespace lockstep {

/// Why parameters are not kept equal by a wrapper: but for the last one, why their gradients were
/// reduced nowhere, as the training itself shows it.
///   bypassed        the wrapper's forward was not called
///   no_sync         it was called in `no_sync()` alone
///   added_after     they were added to the module, or replaced, after it was wrapped
///   unfrozen_after  they required no gradient when it was wrapped
///   outside         they are in no module that is wrapped
///   switched_off    the wrapper was told not to reduce them
///   group_of_one    the wrapper reduces them over one rank
///   in_backward     the optimizer steps in the backward pass, before the wrapper reduces
///   unwrapped       there is no wrapper
///   written_after   they were written after it had made them equal, before the first step
enum class NoReduction {
  bypassed,
  no_sync,
  added_after,
  unfrozen_after,
  outside,
  switched_off,
  group_of_one,
  in_backward,
  unwrapped,
  written_after
};

template <>
struct Names<NoReduction> {
  static constexpr std::array<std::string_view, 10> values{
      "bypassed",     "no_sync",      "added_after", "unfrozen_after", "outside",
      "switched_off", "group_of_one", "in_backward", "unwrapped",      "written_after"};
};

/// Parameters whose gradients no wrapper reduced in some steps, on some ranks. The training may
/// reduce them itself, so this is no fault, until ranks differ in them.
struct Unreduced {
  NoReduction reason = NoReduction::bypassed;
  std::string wrapper;  ///< "DDP", "fully_shard"
  /// "train.py:67", of the forward pass, or of what made the wrapper if forward passes are not the
  /// reason; empty: unknown
  std::string place;
  std::int64_t first_step = 1;          ///< of these
  std::int64_t last_step = 0;           ///< 0: it goes on, as far as is known
  std::vector<int> ranks;               ///< ascending
  std::vector<std::string> parameters;  ///< ascending
  bool explains = false;                ///< the first difference of the ranks
  bool is_repeated = false;             ///< in some of these steps, and not in others between
  bool is_evaluated = false;  ///< the wrapper's forward was called in these steps without gradients

  bool operator==(const Unreduced&) const = default;
};

/// "DDP's forward was never called; the loss was computed on the module inside
/// it, at train.py:67". `step`: the first one that shows it.
std::string cause_in_words(const Unreduced& unreduced, std::int64_t step);

}  // namespace lockstep
