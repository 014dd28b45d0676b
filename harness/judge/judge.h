#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What the judge is given of a cell. It knows neither role nor expectation: what it finds is
/// compared with them afterwards.
struct Case {
  int world_size = 0;
  std::int64_t steps = 0;  ///< that were to be run: a claim that was not observed to the last one
                           ///< is undecided
  std::vector<Claim> claims;
  const Evidence* evidence = nullptr;  ///< null where only the endings are judged
  /// Rank 0 is the reference, the others are the same with perturbed inputs; null when the scenario
  /// has none.
  const Evidence* reference = nullptr;
  std::optional<RankEnd> reference_end = {};  ///< of the reference's rank 0; absent: not known
  std::vector<RankEnd> ends;
};

/// Whether any rank reached the place where the variant parts. Where none did, nothing of it was
/// tried, and no claim holds. A record that does not know counts as reached.
bool is_triggered(const std::vector<RankEnd>& ends);

struct CellFacts;

/// Judges every claim of a case, of which `facts` are known. One result per claim, in order. A
/// judge that throws gives `undecided` with the reason.
std::vector<ClaimResult> judge(const Case& the_case, const CellFacts& facts);

/// What rounding explains of a tensor of which nothing else is known, relative to its norm: a sum
/// of W terms in another order differs by at most W - 1 roundings of its largest partial sum; twice
/// that covers partial sums larger than their total.
double rounding_tolerance(double unit_roundoff, int world_size);

/// The same of a mean of W terms whose norms are known, relative to the mean of these: the
/// roundings of two orders are independent of each other, so that they add up as the root of W. For
/// terms that are alike, a typical difference is 0.5 roundings times that root; this is four times
/// as much, as a tensor of one element needs.
double summation_tolerance(double unit_roundoff, int world_size);

/// Other orders of summation and other kernels round more often than one perturbed input does.
inline constexpr double kPerturbationFactor = 8;

/// A violation must exceed its tolerance by this factor; between the two the claim is undecided.
inline constexpr double kClearFactor = 10;

/// Values of a scenario's table. `evidence` has one entry per group of `spec`, null for a variant
/// that was not run.
Table fill_table(const TableSpec& spec, const std::vector<const Evidence*>& evidence);

}  // namespace lockstep
