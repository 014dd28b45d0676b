#pragma once

#include <cstdint>
#include <optional>

#include "harness/verdict/step_behind.h"
#include "harness/verdict/written_apart.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Finds why the ranks of a judged job differ, by facts that predict just these tensors from that
/// step on, and says it in the job's symptom.
///
/// First of all, that ranks have their parameters in other orders, that they are a step behind,
/// whose gradients are then other ones, or that they wrote to parameters between steps. Else one of
/// `JobRecord::unreduced` explains the first difference, and is marked, if it holds in that
/// step, if every tensor that differs is one of its parameters, and at least half of its parameters
/// that were compared differ. Of several the one with the fewest parameters counts. Without one,
/// how these gradients were reduced (`reduce_over_ranks`). Where gradients agree and parameters
/// differ after a step, ranks have other hyperparameters, or one skipped it.
///
/// `agrees_every`: steps after which parameters agree again, 0: they do not. Ranks that train apart
/// on purpose reduce no gradients, so that is told in the place of a cause.
void find_cause(JobRecord& job, const std::optional<StepBehind>& behind = {},
                const std::optional<WrittenApart>& written = {}, std::int64_t agrees_every = 0);

}  // namespace lockstep
