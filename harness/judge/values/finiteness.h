#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/judge/evidence/claim_fold.h"
#include "harness/judge/evidence/step_reader.h"
#include "reports/record/finding.h"

namespace lockstep {

/// Judges that no tensor of the claim has more elements that are NaN or infinite after a step than
/// before it. A mask that always has infinities stays as it is, so it is no finding. The cell
/// outlives the fold.
std::unique_ptr<ClaimFold> fold_finiteness(const CellEvidence& cell, const Claim& claim);

/// The first value of a step, in the order of execution, that is not finite and was finite in the
/// observed step before; empty: there is none. Reads the rows of both steps.
std::optional<NonFiniteBirth> birth_in(const StepReader& evidence, std::int64_t step);

/// "the module output of norm on rank 2 (16 of 128 elements)".
std::string place_of_birth(const NonFiniteBirth& birth);

/// The same with other ranks: "...; finite on ranks 0,1,3".
std::string birth_in_words(const NonFiniteBirth& birth, int processes);

}  // namespace lockstep
