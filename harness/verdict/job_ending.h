#pragma once

#include <cstdint>
#include <optional>

#include "harness/judge/collectives/cell_facts.h"
#include "reports/record/symptom.h"

namespace lockstep {

/// How a watched job hung, raised an error, was killed or lost a rank, in one sentence of about 160
/// characters, which the findings tell in full: "hang in step 3: rank 1 is in load_batch
/// (train.py:53); rank 0 waits for it in an all-reduce (train.py:72)". Empty: it ended in none of
/// these ways. `wrong_step`: the first step with wrong values; 0: none.
std::optional<Symptom> ending_of_job(const CellFacts& facts, std::int64_t wrong_step);

}  // namespace lockstep
