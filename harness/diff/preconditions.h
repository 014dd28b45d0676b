#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/diff/diff_side.h"
#include "harness/diff/whole_tensors.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Whether two jobs began with the same parameters: `a` and `b` are their tensors in the first
/// compared step. Parameters that differ by more than rounding make the comparison void.
Precondition compare_initial_weights(const WholeTensors& a, const WholeTensors& b);

/// Whether two jobs have the same settings. Others are told, and leave it undecided. `offset`: of
/// B's steps: if they are others than A's, settings that schedules change are left out, since they
/// are those of each job's first step.
Precondition compare_configurations(const JobRecord& a, const JobRecord& b, std::int64_t offset);

/// Whether the generators of two jobs had the same states after these pairs of steps: of each rank
/// if there are as many, else of rank 0. Absent: neither observed them.
std::optional<Precondition> compare_random_states(
    const SideFiles& a, const SideFiles& b,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& steps);

/// Whether two jobs saw the same samples in these pairs of steps, whichever rank did: by the
/// digests of `watch --data`. If not, whether B saw those of another step of A, which is a fault of
/// one that goes on with the training of A.
Precondition compare_samples(const SideFiles& a, const SideFiles& b,
                             const std::vector<std::pair<std::int64_t, std::int64_t>>& steps);

/// That a side was observed in steps after the last one of the other. Absent: neither was. A side
/// that observes one of several steps may have taken those after its last.
std::optional<Precondition> compare_last_steps(const SideFiles& a, const SideFiles& b,
                                               std::int64_t offset);

/// Whether each rank saw the same samples in both steps; absent: unknown.
std::optional<bool> ranks_saw_the_same(const StepView& a, const StepView& b);

/// The key of a parameter in tensors `before` a step.
WholeTensorKey before_step_key(const std::string& name);

/// A parameter before the step: observed as such, or after the step before. Null: unknown.
const WholeTensor* before_step(const WholeTensors& before, const std::string& name);

/// L2 distance of all parameters of B before the step from those of A, over the larger norm.
/// Absent: one is unknown. `left_out`: parameters that do not count.
std::optional<double> parameters_apart(const WholeTensors& a, const WholeTensors& b,
                                       const std::set<std::string>& left_out);

}  // namespace lockstep
