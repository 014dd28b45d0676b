#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The table of one run in the layout of the published ones, ending in a newline. Groups that do
/// not fit into kConsoleWidth continue in a table below; of more than kMostShownRanks ranks the
/// first are shown, and a line says which ones are not. "-" is what was not measured.
std::string table_text(const Table& table);

}  // namespace lockstep
