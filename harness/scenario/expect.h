#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "reports/record/claim.h"

namespace lockstep {

// The claims that scenarios make, and what cells declare of them: one name for each, for all.

inline constexpr Claim kGradientsAgree{Predicate::agree_across_ranks, Kind::gradient,
                                       Phase::pre_step};
inline constexpr Claim kParametersAgree{Predicate::agree_across_ranks, Kind::parameter,
                                        Phase::post_step};
inline constexpr Claim kBuffersAgree{Predicate::agree_across_ranks, Kind::buffer,
                                     Phase::pre_forward};
inline constexpr Claim kLossesAgree{Predicate::agree_across_ranks, Kind::loss, Phase::pre_forward};
inline constexpr Claim kGradientsEqual{Predicate::equal_reference, Kind::gradient, Phase::pre_step};
inline constexpr Claim kParametersEqual{Predicate::equal_reference, Kind::parameter,
                                        Phase::post_step};
inline constexpr Claim kBuffersEqual{Predicate::equal_reference, Kind::buffer, Phase::pre_forward};
inline constexpr Claim kLossesEqual{Predicate::equal_reference, Kind::loss, Phase::pre_forward};
inline constexpr Claim kMemoryBounded{Predicate::at_most_reference, Kind::memory,
                                      Phase::post_backward};

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

// What pins a fault, so that no other one that breaks the same claims passes for it.

/// `expectation` with `pins` behind those that it has.
Expectation pinned(Expectation expectation, std::vector<Pin> pins);

/// What is `value` but for a share of `precision`, and for what is exactly 0 nothing else.
Range about(double value, double precision = 1e-3);

/// The cosine of a multiple, and of what is none.
inline constexpr Range kSameDirection{0.99999, 1.00001};
inline constexpr Range kOtherDirection{-1.00001, 0.99999};

/// Every rank holds other bits than all others.
std::vector<std::vector<int>> each_alone(const Cell& cell);

/// From step 1 to the last the gradient of a rank is its own and nobody else's. `parameters_move`
/// as below.
Expectation expect_never_reduced(const Cell& cell, bool parameters_move = true);

/// From step 1 to the last all ranks have `times` the right gradients. `parameters_move` as below.
Expectation expect_multiple(const Cell& cell, double times, bool parameters_move = true);

/// The gradients that are wrong in step 1 are of `tensors`, and some are until the last step. How
/// wrong is open, for the reason `why`.
Pin wrong_gradients_of(const Cell& cell, std::vector<std::string> tensors, std::string why);

/// The fault is there, and the conditions of the cell hide it: all is right.
Expectation expect_hidden();

/// The cell cannot be run: a precondition is violated.
Expectation expect_not_applicable(std::string reason);

/// A precondition that is violated in more than one scenario.
inline constexpr const char* kNoSyncWithStaticGraph =
    "a static graph does not allow no_sync around its first backward";

/// Whether the cell asks for a static graph whose first backward runs inside of `no_sync`.
bool has_no_sync_with_static_graph(const Cell& cell);
/// The precondition of cells that do not: why the cell cannot be run, or empty.
std::string refuse_no_sync_with_static_graph(const Cell& cell);

/// Why a cell is not applicable in bfloat16, whose roundings hide the fault in some cells like it.
/// `least`: by how many tolerances it breaks a claim in the cell where that is the fewest, measured
/// by `run SCENARIO --set dtype=bfloat16 --matrix --ranks 2` without this reason.
std::string hidden_by_rounding(double least);

/// An error in the step in which the fault is, or before any value was seen.
Expectation expect_error(const char* fragment, std::int64_t step = 1);

// Of replicas. Parameters stay right where the learning rate is 0.

/// Nobody complains, and ranks hold different values.
Expectation expect_ranks_differ(bool parameters_move = true);
/// The same of gradients of `tensors`, each rank's other than all others', from `step` on.
Expectation expect_apart(const Cell& cell, std::vector<std::string> tensors,
                         bool parameters_move = true, std::int64_t step = 1);
/// All ranks hold the same wrong gradients of `tensors` from `step` on, no multiples of the right
/// ones. Beside gradients from before it is open whether they look like one.
Expectation expect_alike_but_wrong(const Cell& cell, std::vector<std::string> tensors,
                                   bool parameters_move = true, std::int64_t step = 1);
/// Nobody complains, and all ranks hold the same wrong values.
Expectation expect_agree_but_wrong(bool parameters_move = true);
/// Step 1 is not synchronised, and the next one begins with an error.
Expectation expect_error_after_wrong_step(const Cell& cell, const char* fragment,
                                          std::vector<std::string> tensors);

// Of shards.

/// Ranks finish with wrong gradients, and parameters with them.
Expectation expect_wrong_shards(SymptomKind symptom = SymptomKind::agree_but_wrong);
/// Gradients of step 1 are right and the optimizer's step is not, of `tensors`: the gradients of
/// the next step are wrong.
Expectation expect_wrong_updates(const Cell& cell, std::vector<std::string> tensors);

// Of ranks that do not call the same collectives.

/// The ranks that are to blame where `rank` calls something else than all others: of two that
/// differ, both.
std::vector<int> odd_ranks(const Cell& cell, int rank);

/// Nobody complains: from step 1 on, gradients of `tensors` were reduced with those of others.
Expectation expect_tensors_swapped(MismatchFault fault, std::vector<std::string> tensors);
/// A rank waits in a collective that the others do not come to, or is told so by the backend:
/// `fault` of `culprits` in `step`.
Expectation expect_ranks_do_not_meet(MismatchFault fault, std::int64_t step,
                                     std::vector<int> culprits);
/// A rank calls a collective for less than the others, and the backend notices: Gloo ends the
/// process, in which an I/O thread throws; Lockstep's MPI backend refuses the call.
Expectation expect_sizes_differ(const Cell& cell, std::int64_t step, std::vector<int> culprits);

}  // namespace lockstep
