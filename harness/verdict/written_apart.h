#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Parameters that ranks wrote outside of their optimizers' steps, and in which they then differ.
struct WrittenApart {
  std::vector<int> ranks;  ///< that wrote to theirs, ascending
  std::int64_t step = 0;   ///< before which
};

/// If parameters differ first in a step, and did so before it, the step before that was observed,
/// and some ranks wrote to theirs between the two. Nothing, if all do in each step. Reads the rows
/// of the step.
std::optional<WrittenApart> written_apart(const StepReader& evidence, const JobRecord& job);

/// "parameters were written on rank 1 between steps 1 and 2, outside of the optimizer".
std::string in_words(const WrittenApart& written);

}  // namespace lockstep
