#pragma once

#include <filesystem>
#include <memory>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Opens the evidence of an execution in its folder in `run_folder`; `writers` are its processes.
/// Throws Error (usage) as StepReader does. Also throws if a rank that ended by itself has a
/// different row count than it reported, or lacks a required journal.
std::unique_ptr<StepReader> open_execution(const std::filesystem::path& run_folder,
                                           const Execution& execution, Writers writers,
                                           const Reading& reading = {});

/// The processes that wrote the files of a cell or job. A job whose ranks stand still has the
/// collectives that they answered.
Writers writers_of(const CellRecord& cell);
Writers writers_of(const JobRecord& job, const std::filesystem::path& run_folder);

}  // namespace lockstep
