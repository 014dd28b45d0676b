#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/train/scenario.h"
#include "reports/claim.h"

namespace lockstep {

// The claims that scenarios make, and what cells declare of them: one name for each, for all.

inline constexpr Claim kGradientsAgree{Predicate::agree_across_ranks, Kind::gradient,
                                       Point::reduced};
inline constexpr Claim kParametersAgree{Predicate::agree_across_ranks, Kind::parameter,
                                        Point::stepped};
inline constexpr Claim kBuffersAgree{Predicate::agree_across_ranks, Kind::buffer, Point::forward};
inline constexpr Claim kLossesAgree{Predicate::agree_across_ranks, Kind::loss, Point::forward};
inline constexpr Claim kGradientsEqual{Predicate::equal_reference, Kind::gradient, Point::reduced};
inline constexpr Claim kParametersEqual{Predicate::equal_reference, Kind::parameter,
                                        Point::stepped};
inline constexpr Claim kBuffersEqual{Predicate::equal_reference, Kind::buffer, Point::forward};
inline constexpr Claim kLossesEqual{Predicate::equal_reference, Kind::loss, Point::forward};
inline constexpr Claim kMemoryBounded{Predicate::at_most_reference, Kind::memory, Point::backward};

/// What is true of a correct step where every rank has a whole model: gradients and parameters
/// agree across ranks and equal the reference, and ranks finish.
std::vector<Claim> replica_claims();

/// The same of a sharded model, whose shards have no copies that could agree.
std::vector<Claim> sharded_claims();

/// Those of replicas, and that collectives match.
std::vector<Claim> collective_claims();

/// `more` in front of `claims`.
std::vector<Claim> claims_before(std::vector<Claim> more, const std::vector<Claim>& claims);

/// Whether the cell is to show something: its role is buggy or wrong-fix.
bool is_faulty(const Cell& cell);

/// The cell cannot be run: a precondition is violated.
Expectation expect_not_applicable(std::string reason);

/// Preconditions that are violated in more than one scenario.
inline constexpr const char* kNoSyncWithStaticGraph =
    "a static graph does not allow no_sync around its first backward";
inline constexpr const char* kHiddenByRounding =
    "in bfloat16 such a fault is less than the 10 tolerances that show one, in some cells of each "
    "scenario";

/// An error in the step in which the fault is, or before any value was seen.
Expectation expect_error(const char* fragment, std::int64_t step = 1);

// Of replicas. Parameters stay right where the learning rate is 0.

/// Nobody complains, and ranks hold different values.
Expectation expect_ranks_differ(bool parameters_move = true);
/// Nobody complains, and all ranks hold the same wrong values.
Expectation expect_agree_but_wrong(bool parameters_move = true);
/// Step 1 is not synchronised, and the next one begins with an error.
Expectation expect_error_after_wrong_step(const char* fragment);

// Of shards.

/// Ranks finish with wrong gradients, and parameters with them.
Expectation expect_wrong_shards(OutcomeKind outcome = OutcomeKind::agree_but_wrong);
/// Gradients are right and the optimizer's step is not: those of the next step are wrong.
Expectation expect_wrong_updates(const Cell& cell);

// Of ranks that do not call the same collectives.

/// Nobody complains: gradients were reduced with gradients of other tensors.
Expectation expect_tensors_swapped();
/// A rank waits in a collective, or is told by the backend, that the others do not come to.
/// `silent`: claims that were violated before.
Expectation expect_ranks_do_not_meet(std::vector<Claim> silent = {});
/// A rank calls a collective for less than the others, and the backend notices: Gloo ends the
/// process, in which an I/O thread throws; Lockstep's MPI backend refuses the call.
Expectation expect_sizes_differ(const Cell& cell, std::int64_t step);

}  // namespace lockstep
