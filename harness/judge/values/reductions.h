#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// What a gradient is, by the contributions of the ranks that hold it.
///   over_all       the mean of all, or a multiple of it
///   divided        the same, divided by the number of ranks once more
///   over_some      on all ranks a multiple of the mean of some contributions
///   early_sum      on all ranks a multiple of the mean of what the first passes of the step
///                  contributed; the last ones are still to be reduced
///   nowhere        there is none, although ranks contributed
///   within_groups  ranks differ: each has the mean of those ranks that have its bits
///   early_pass     ranks differ: each added its own to what was reduced after an earlier backward
///                  pass of the step
///   changed_after  ranks differ, and had the mean of all when the backward pass had ended
///   unknown        none of these
enum class Reduced {
  over_all,
  divided,
  over_some,
  early_sum,
  nowhere,
  within_groups,
  early_pass,
  changed_after,
  unknown
};

/// How a gradient of a step was reduced.
struct Reduction {
  Reduced reduced = Reduced::unknown;
  /// Ascending. `divided`: all that contributed. `over_some`: those whose contributions it has, and
  /// those whose it lacks. `within_groups`: those of each group, by lowest rank. `changed_after`:
  /// those on which it was changed.
  /// `early_sum`: all that contributed; `nowhere`: the same, each alone.
  std::vector<std::vector<int>> ranks = {};
  std::int64_t pass = 0;  ///< the last one that was reduced, from 1; 0: not `early_pass`
  /// A rank that is left out would be seen among so many, if all contributed as these do. 0: not
  /// even among these.
  std::size_t reach = 0;
  double factor = 0;  ///< of `over_all`: so many times the mean, as it was reduced if that is known
  bool are_alike = false;  ///< the contributions: all ranks have the same

  bool operator==(const Reduction&) const = default;
};

/// Of the gradients of a step that at least two ranks hold and contributed to, by name. Those are
/// left out whose contributions are not known, not finite, almost cancel each other, or are 0.
///
/// A gradient of the ranks r is compared with sums of their contributions c(r) by sketches, which
/// are linear. It may be a multiple, because gradients are clipped and unscaled after the
/// reduction. The rest may have the norm of the rounding of a sum of that type. Of reductions that
/// are compressed, up to that of bfloat16. A gradient that is none of the wrong sums is not wrong,
/// since it may have been changed in any way.
///
/// Where ranks divide a gradient, their parts are put together, and contributions of a step add up:
/// each is what a backward pass handed to the reduction.
///
/// A gradient that fits the mean of all is `over_all`, whatever else it fits: ranks with the same
/// contributions, or with none.
std::map<std::string, Reduction> reductions_in(const StepView& step,
                                               const std::set<std::string>& unshared);

}  // namespace lockstep
