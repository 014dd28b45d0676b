#pragma once

#include <filesystem>
#include <memory>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Opens the evidence of an execution in its folder inside `run_folder`; `writers` are its
/// processes. Throws Error (usage) as StepReader does, and where a rank that ended by itself has
/// another number of rows than it said, or no journal although it had to have one.
std::unique_ptr<StepReader> open_execution(const std::filesystem::path& run_folder,
                                           const Execution& execution, Writers writers,
                                           const Reading& reading = {});

/// Who wrote the files of a cell, or of a job. `must_sign`: a file that does not say it is refused.
Writers writers_of(const CellRecord& cell, bool must_sign);
Writers writers_of(const JobRecord& job);

}  // namespace lockstep
