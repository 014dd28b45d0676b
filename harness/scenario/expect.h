#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "reports/record/claim.h"

namespace lockstep {

// Claims and expectations of cells, shared by all scenarios.

inline constexpr Claim kGradientsAgree{Predicate::agree_across_ranks, Kind::gradient,
                                       Phase::pre_step};
inline constexpr Claim kParametersAgree{Predicate::agree_across_ranks, Kind::parameter,
                                        Phase::post_step};
/// Before the first step, where alone a body observes them for it.
inline constexpr Claim kInitialParametersAgree{Predicate::agree_across_ranks, Kind::parameter,
                                               Phase::pre_forward};
inline constexpr Claim kBuffersAgree{Predicate::agree_across_ranks, Kind::buffer,
                                     Phase::pre_forward};
inline constexpr Claim kLossesAgree{Predicate::agree_across_ranks, Kind::loss, Phase::pre_forward};
inline constexpr Claim kGradientsEqual{Predicate::equal_reference, Kind::gradient, Phase::pre_step};
inline constexpr Claim kParametersEqual{Predicate::equal_reference, Kind::parameter,
                                        Phase::post_step};
inline constexpr Claim kBuffersEqual{Predicate::equal_reference, Kind::buffer, Phase::pre_forward};
inline constexpr Claim kLossesEqual{Predicate::equal_reference, Kind::loss, Phase::pre_forward};
inline constexpr Claim kUpdatesEqual{Predicate::equal_reference, Kind::update, Phase::post_step};
/// Ranks read other samples, and draw other random numbers.
inline constexpr Claim kSamplesDiffer{Predicate::differ_across_ranks, Kind::data,
                                      Phase::post_backward};
inline constexpr Claim kRandomStatesDiffer{Predicate::differ_across_ranks, Kind::random_state,
                                           Phase::post_step};
inline constexpr Claim kMemoryBounded{Predicate::at_most_reference, Kind::memory,
                                      Phase::post_backward};

/// Claims of a correct step if every rank has a whole model: gradients and parameters agree across
/// ranks and equal the reference, and ranks finish.
std::vector<Claim> replica_claims();

/// The same for a sharded model; its shards have no copies to compare.
std::vector<Claim> sharded_claims();

/// The claims of replicas, and that collectives match.
std::vector<Claim> collective_claims();

/// `more`, followed by `claims`.
std::vector<Claim> claims_before(std::vector<Claim> more, const std::vector<Claim>& claims);

/// The same expectation of every cell.
ExpectationOf always(Expectation expectation);

/// Whether the cell should show a fault: its role is buggy or wrong-fix.
bool is_faulty(const Cell& cell);

// Pins identify a fault, so that no other fault breaking the same claims passes for it.

/// `expectation` with `pins` after its own.
Expectation pinned(Expectation expectation, std::vector<Pin> pins);

/// `value` within the relative `precision`; for 0, exactly 0.
Range about(double value, double precision = 1e-3);

/// Cosines of gradients that are a multiple of the right ones, and of all others.
inline constexpr Range kSameDirection{0.99999, 1.00001};
inline constexpr Range kOtherDirection{-1.00001, 0.99999};

/// Every rank holds bits unlike all others.
std::vector<std::vector<int>> each_alone(const Cell& cell);

/// From `step` to the last, all ranks hold the same `tensor`, of which each should have its own.
Pin same_on_all_ranks(const Cell& cell, const Claim& claim, std::string tensor, std::int64_t step);

/// From step 1 to the last, each rank's gradient is only its own. `parameters_move` as below.
Expectation expect_never_reduced(const Cell& cell, bool parameters_move = true);

/// From step 1 to the last, all ranks have `times` the right gradients. `parameters_move` as below.
Expectation expect_multiple(const Cell& cell, double times, bool parameters_move = true);
/// The same, of `tensors` alone; empty: of all.
Expectation expect_multiple_of(const Cell& cell, std::vector<std::string> tensors, double times);

/// In step 1, only gradients of `tensors` are wrong, and some stay wrong until the last step. The
/// size of the error is left open, for the reason `why`.
Pin wrong_gradients_of(const Cell& cell, std::vector<std::string> tensors, std::string why);

/// The fault exists, but the cell's conditions hide it: all values are right.
Expectation expect_hidden();

/// The cell cannot be run: a precondition is violated.
Expectation expect_not_applicable(std::string reason);

/// A precondition of more than one scenario.
inline constexpr const char* kNoSyncWithStaticGraph =
    "a static graph does not allow no_sync around its first backward";

/// Why a cell with a single step of AdamW cannot be run; empty: it can. The precondition of
/// scenarios with an axis `optimizer`.
std::string no_single_step_of_adamw(const Cell& cell);

/// Whether the cell asks for a static graph whose first backward runs inside `no_sync`.
bool has_no_sync_with_static_graph(const Cell& cell);
/// The precondition of cells without that: why the cell cannot be run, or empty.
std::string refuse_no_sync_with_static_graph(const Cell& cell);

/// Why a cell is not applicable in bfloat16, whose rounding hides the fault in some similar cells.
/// `least` is the smallest violation of a claim in any cell, in tolerances, measured by `run
/// SCENARIO --set dtype=bfloat16 --matrix --ranks 2` without this reason.
std::string hidden_by_rounding(double least);

/// An error in the faulty step, or before any value was observed.
Expectation expect_error(const char* fragment, std::int64_t step = 1);

// For replicas. Parameters stay right if the learning rate is 0.

/// No error is raised, and ranks hold different values.
Expectation expect_ranks_differ(bool parameters_move = true);
/// The same for gradients of `tensors`, from `step` on, each rank's unlike all others.
Expectation expect_apart(const Cell& cell, const std::vector<std::string>& tensors,
                         bool parameters_move = true, std::int64_t step = 1);
/// Ranks start with different `parameters` and move them alike, by the mean of their gradients. In
/// step 1 it is wrong for `gradients`.
Expectation expect_starts_apart(const Cell& cell, const std::vector<std::string>& parameters,
                                std::vector<std::string> gradients);
/// All ranks hold the same wrong gradients of `tensors` from `step` on, not a multiple of the right
/// ones. With gradients left from an earlier step, they may look like a multiple.
Expectation expect_alike_but_wrong(const Cell& cell, std::vector<std::string> tensors,
                                   bool parameters_move = true, std::int64_t step = 1);
/// No error is raised, and all ranks hold the same wrong values.
Expectation expect_agree_but_wrong(bool parameters_move = true);
/// Step 1 is not synchronised, and the next step begins with an error.
Expectation expect_error_after_wrong_step(const Cell& cell, const char* fragment,
                                          const std::vector<std::string>& tensors);

// For shards.

/// Ranks finish with wrong gradients and wrong parameters.
Expectation expect_wrong_shards(SymptomKind symptom = SymptomKind::agree_but_wrong);
/// Gradients of step 1 are right, but the optimizer's step on `tensors` is not: the gradients of
/// the next step are wrong.
Expectation expect_wrong_updates(const Cell& cell, std::vector<std::string> tensors);

// For ranks that call different collectives.

/// The ranks to blame if the call of `rank` differs from all others; of two ranks, both.
std::vector<int> odd_ranks(const Cell& cell, int rank);

/// No error is raised: from step 1 on, gradients of `tensors` were reduced with those of others.
Expectation expect_tensors_swapped(MismatchFault fault, std::vector<std::string> tensors);
/// A rank waits in a collective that the others never call, or the backend reports it: `fault` of
/// `culprits` in `step`.
Expectation expect_ranks_do_not_meet(MismatchFault fault, std::int64_t step,
                                     std::vector<int> culprits);
/// A rank calls a collective with a smaller size than the others, and the backend notices: Gloo
/// ends the process, because an I/O thread throws; Lockstep's MPI backend refuses the call.
Expectation expect_sizes_differ(const Cell& cell, std::int64_t step, std::vector<int> culprits);

}  // namespace lockstep
