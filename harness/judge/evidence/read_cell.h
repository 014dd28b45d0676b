#pragma once

#include <filesystem>
#include <memory>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Opens the evidence of a cell that was run in its folder inside `run_folder`. Throws Error
/// (usage) as StepReader does, where a rank that ended by itself has no journal or another number
/// of rows than it said, and, with `is_signed`, where a file does not say who wrote it.
std::unique_ptr<StepReader> open_cell(const std::filesystem::path& run_folder,
                                      const CellRecord& cell, bool is_signed,
                                      const Reading& reading = {});

}  // namespace lockstep
