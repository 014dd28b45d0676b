#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "harness/verdict/division_of_model.h"
#include "harness/verdict/shared_samples.h"
#include "harness/verdict/step_behind.h"
#include "harness/verdict/written_apart.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Facts of a job that its record does not have.
struct FactsOfRanks {
  std::optional<StepBehind> behind = {};
  std::optional<WrittenApart> written = {};
  std::int64_t agrees_every = 0;  ///< steps after which parameters agree again; 0: they do not
  PartsOfRanks parts = {};
  SharedSamples samples = {};
  std::set<std::string> unshared = {};  ///< tensors that differ from the beginning, or are parts
};

/// Finds why the ranks of a judged job differ, by facts that predict just these tensors from that
/// step on, and says it in the job's symptom.
///
/// First of all, that ranks have their parameters in other orders, that they are a step behind,
/// whose gradients are then other ones, or that they wrote to parameters between steps; then that
/// they divide the model, and hold other gradients of what they share. Else one of
/// `JobRecord::unreduced` explains the first difference, and is marked, if it holds in that
/// step, if every tensor that differs is one of its parameters, and at least half of its parameters
/// that were compared differ. Of several the one with the fewest parameters counts. Without one,
/// how these gradients were reduced (`reduce_over_ranks`). Where gradients agree and parameters
/// differ after a step, ranks have other hyperparameters, or one skipped it.
///
/// Ranks that train apart on purpose, and agree now and then, reduce no gradients, so that is told
/// in the place of a cause.
void find_cause(JobRecord& job, const FactsOfRanks& facts = {});

}  // namespace lockstep
