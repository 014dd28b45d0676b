#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/evidence.h"
#include "reports/run_record.h"

namespace lockstep {

/// What the judge is given of a cell. It knows neither role nor expectation: what it finds is
/// compared with them afterwards.
struct Case {
  int world_size = 0;
  std::int64_t steps = 0;  ///< that were to be run: a claim that was not observed to the last one
                           ///< is undecided
  std::vector<Claim> claims;
  const Evidence* evidence = nullptr;   ///< null where only the endings are judged
  const Evidence* reference = nullptr;  ///< null when the scenario has none
  std::vector<RankEnd> ends;
};

/// Judges every claim of a case. One result per claim, in order. A judge that throws gives
/// `undecided` with the reason.
std::vector<ClaimResult> judge(const Case& the_case);

/// The tolerance of `equal_reference` in `step`: largest relative Frobenius difference that
/// rounding explains, relative to the norm of all tensors of that kind together. A sum of W terms
/// in another order differs by at most (W - 1) roundings of its largest partial sum; each step
/// carries the differences of the steps before on. Twice that covers partial sums larger than their
/// total. At most 0.05, so that a gradient that is missing or halved is a violation in every dtype.
double reference_tolerance(double unit_roundoff, int world_size, std::int64_t step);

/// A violation must exceed its tolerance by this factor; between the two the claim is undecided.
inline constexpr double kClearFactor = 10;

/// Values of a scenario's table. `evidence` has one entry per group of `spec`, null for a variant
/// that was not run.
Table fill_table(const TableSpec& spec, const std::vector<const Evidence*>& evidence);

}  // namespace lockstep
