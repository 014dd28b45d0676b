#pragma once

#include <filesystem>
#include <memory>

#include "harness/judge/evidence/evidence.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Reads the evidence of a cell that was run from its folder inside `run_folder`. Throws Error
/// (usage) as Evidence does, where a rank that ended by itself has no journal or another number of
/// rows than it said, and, with `is_signed`, where a file does not say who wrote it.
std::unique_ptr<Evidence> evidence_of_cell(const std::filesystem::path& run_folder,
                                           const CellRecord& cell, bool is_signed);

}  // namespace lockstep
