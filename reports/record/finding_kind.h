#pragma once

#include <array>
#include <string_view>

#include "reports/base/names.h"

namespace lockstep {

/// What kind of fault a finding shows. Each has a page, docs/findings/NAME.md, which `lockstep
/// explain NAME` prints. New kinds are added at the end; a name is never reused.
enum class FindingKind {
  // Ranks that should hold the same bits do not.
  initial_weights_differ,
  weights_differ,
  gradients_differ,
  buffers_differ,
  losses_differ,
  states_differ,
  // Values are not those of the reference.
  gradient_never_synchronised,
  gradient_of_another_rank,
  gradients_mixed_up,
  scaled_by_world_size,
  divided_by_world_size,
  scaled_by_a_constant,
  sign_flipped,
  nothing_arrived,
  not_finite,
  other_shape,
  wrong_values,
  wrong_update,
  memory_above_reference,
  // A rank did not finish.
  rank_raised_error,
  rank_killed,
  rank_exited_early,
  rank_hung,
  rank_disappeared,
  rank_not_started,
  // Ranks made different calls.
  collective_never_called,
  collectives_out_of_order,
  collective_arguments_differ,
  collective_count_differs,
  // Values of a job on their own.
  became_not_finite,
  // Samples of a job.
  same_samples,
  // Reductions of a job.
  ranks_left_out,
  passes_left_out,
  changed_after_reduction,
  // Ranks that should hold values of their own do not.
  same_values,
  // Weights of a job.
  other_weights_used,
  tie_broken,
  // Parts of a job's gradients.
  parts_clipped_apart
};

template <>
struct Names<FindingKind> {
  static constexpr std::array<std::string_view, 38> values{"initial-weights-differ",
                                                           "weights-differ",
                                                           "gradients-differ",
                                                           "buffers-differ",
                                                           "losses-differ",
                                                           "states-differ",
                                                           "gradient-never-synchronised",
                                                           "gradient-of-another-rank",
                                                           "gradients-mixed-up",
                                                           "scaled-by-world-size",
                                                           "divided-by-world-size",
                                                           "scaled-by-a-constant",
                                                           "sign-flipped",
                                                           "nothing-arrived",
                                                           "not-finite",
                                                           "other-shape",
                                                           "wrong-values",
                                                           "wrong-update",
                                                           "memory-above-reference",
                                                           "rank-raised-error",
                                                           "rank-killed",
                                                           "rank-exited-early",
                                                           "rank-hung",
                                                           "rank-disappeared",
                                                           "rank-not-started",
                                                           "collective-never-called",
                                                           "collectives-out-of-order",
                                                           "collective-arguments-differ",
                                                           "collective-count-differs",
                                                           "became-not-finite",
                                                           "same-samples",
                                                           "ranks-left-out",
                                                           "passes-left-out",
                                                           "changed-after-reduction",
                                                           "same-values",
                                                           "other-weights-used",
                                                           "tie-broken",
                                                           "parts-clipped-apart"};
};

}  // namespace lockstep
