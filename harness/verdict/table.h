#pragma once

#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Values of a scenario's table. `evidence` has one entry per group of `spec`, null for a variant
/// that was not run.
Table fill_table(const TableSpec& spec, const std::vector<const StepReader*>& evidence);

}  // namespace lockstep
