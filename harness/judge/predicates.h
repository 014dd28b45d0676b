#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/judge.h"

namespace lockstep {

// One judge per predicate; `judge` dispatches to them. Each fills verdict, reason, comparisons and
// findings of a result whose claim is set. They may throw; `judge` turns that into `undecided`.

/// Bitwise, whole tensors and equal shards, between the ranks of a replica group.
void judge_agreement(const Case& the_case, ClaimResult& result);

/// Against the reference, within what roundings explain (see expected_values.h).
void judge_equality(const Case& the_case, ClaimResult& result);

/// Bytes against the reference's of the same step and name, on every rank: at most a tenth above it
/// holds, beyond kClearFactor tenths is violated. A reference of 0 leaves the claim undecided.
void judge_bound(const Case& the_case, ClaimResult& result);

/// How the ranks ended. The error of a rank that lost a dead peer is a consequence, no finding.
void judge_endings(const Case& the_case, const CellFacts& facts, ClaimResult& result);

/// What the ranks called, by their collective logs. Ranks that died or were stopped leave it
/// undecided: up to there they matched.
void judge_collectives(const CellFacts& facts, ClaimResult& result);

/// A missed meeting as a finding about `claim`.
Finding finding_of_meeting(const Claim& claim, const MissedMeeting& missed);

/// The first step in which a value was found to be wrong; 0 when none was. Memory is no value, and
/// neither are collectives.
std::int64_t first_damage(const std::vector<ClaimResult>& results);

/// How sentences and differences call the holder of the reference's values.
inline constexpr const char* kReference = "the reference";

/// Whether the claim is about observations like this one.
bool concerns(const Claim& claim, const Observation& observation);

/// Whether there is no tensor to speak of, rather than one that cannot be compared.
bool is_undefined(const Observation& observation);

/// Whether two observations are of the same bits, dtype and shape.
bool is_same_value(const Observation& a, const Observation& b);

/// The number of bytes that a value of Kind::memory is; nothing for null and for all that is no
/// 0-dim whole number from 0 up.
std::optional<std::int64_t> bytes_of(const KeptTensor* tensor);

/// "w in step 2 cannot be compared: sparse layout".
std::string incomparable_in_words(const Observation& observation);

/// Why the reference has nothing to compare `actual` with: "the reference has no w in step 2: it
/// did not finish within its limit of 60 s".
std::string missing_in_reference(const Case& the_case, const Observation& actual);

bool is_among(const std::vector<int>& ranks, int rank);

/// Whether a rank raised because a peer was gone: its cause says so, and by its collective log,
/// where it has any entry, it was in a call. A loader of data loses connections in the same words.
bool has_lost_peer(const Case& the_case, const RankEnd& end);

/// The ranks that ended badly, by rank, without those whose end is a consequence of another's.
/// Empty only where none ended badly, or all were ended at their limit while they trained. Points
/// into the case.
std::vector<const RankEnd*> culprits(const Case& the_case);

/// What a framework says before it explains at length: up to the end of the first line or sentence,
/// without where it was raised. An error for want of memory is told to the end of the line.
std::string first_sentence(const std::string& text);

/// Whose gradient one is. Both parts are empty where that is not known.
struct DiagnosedOrigin {
  std::optional<GradientOrigin> kind;
  /// "it is the rank's own gradient: never synchronised", "it is the mean of a on rank 0 and b on
  /// rank 1: different tensors were reduced with each other".
  std::string words;
};

/// Where a gradient of `rank` that is not the reference's comes from, by the reference's notes of
/// what each rank's shard alone gives. Never synchronised is only what no other rank holds.
DiagnosedOrigin origin_of_gradient(const Case& the_case, const Observation& actual, int rank);

/// "ranks 0,1,3 agree; 2 differs" for groups of equal ranks.
std::string groups_in_words(const std::vector<std::vector<int>>& groups);

/// "element [0, 3] is 0.25 on rank 0 and 0.5 on rank 1 (0x3e800000, 0x3f000000; 8388608 ULP
/// apart)".
std::string element_in_words(const ElementDifference& difference);

/// Why two observations differ where it is not a value: one has none, or their dtypes or shapes
/// differ. Empty when they can be compared. `left` and `right` name the holders.
std::string structural_difference(const Observation& a, const std::string& left,
                                  const Observation& b, const std::string& right);

/// Where all was compared: what is violated needs no reason, what could not be compared leaves open
/// a claim that nothing violates, and `too_close` is the reason where a difference does.
void settle(ClaimResult& result, const std::string& too_close);

/// The larger of two differences; NaN (not finite) is larger than any.
double worse(double a, double b);

/// "[2, 3]".
std::string shape_in_words(const std::vector<std::int64_t>& shape);

/// A number for a sentence: six significant digits.
std::string number(double value);

}  // namespace lockstep
