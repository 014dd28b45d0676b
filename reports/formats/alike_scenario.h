#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "reports/record/run_record.h"

namespace lockstep {

/// A scenario of the catalogue with the fault of a job, and one or two variants that mend it; the
/// second is empty if there is none.
struct AlikeScenario {
  std::string_view id;
  std::array<std::string_view, 2> fixes;
};

/// The words of an error that a scenario raises. A job's error has them, whatever it says besides.
struct AlikeError {
  std::string_view text;
  AlikeScenario scenario;
};

/// All, in the order in which they are looked for.
inline constexpr std::array<AlikeError, 6> kAlikeErrors{
    AlikeError{"Expected to mark a variable ready only once",
               {"reentrant-checkpoint-under-ddp", {"non-reentrant-offload", "no-checkpoint"}}},
    {"Expected to have finished reduction in the prior iteration",
     {"tiled-parameter-absent-from-last-tile", {"unused-found", "touching-all"}}},
    {"expect_autograd_hooks_ INTERNAL ASSERT FAILED",
     {"static-graph-with-no-sync", {"first-pass-reduced", "without-static-graph"}}},
    {"Expected all tensors to be on the same device",
     {"loss-gradient-on-head-device", {"hidden-moved-before", "gradient-moved-back"}}},
    {"invalid device ordinal", {"global-rank-as-device-index", {"local-rank", ""}}},
    {"op.preamble.length <= op.nbytes",
     {"collective-order-differs-other-shapes", {"sorted-by-name", "logged-in-every-step"}}}};

/// The scenario with the cause of a judged job: by the reason for which gradients were not reduced,
/// by the error that ended it, how they were reduced or which samples ranks saw, or by collectives
/// that do not match. Absent: none is known, or the job has no fault.
std::optional<AlikeScenario> alike_scenario(const JobRecord& job);

/// "alike in the catalogue: loss-on-unwrapped-module, mended by through-wrapper or
/// all-reduce-each"; empty: none is.
std::string alike_in_words(const JobRecord& job);

}  // namespace lockstep
