#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "reports/base/plain_text.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// How a table is shown.
struct TableLayout {
  std::size_t width = kConsoleWidth;
  std::size_t most_rows = std::numeric_limits<std::size_t>::max();
  bool has_sparklines = false;
};

/// The table of one run in the layout of the published ones, ending in a newline. Groups that do
/// not fit into the width continue in a table below; of more than `most_rows` rows some are shown,
/// evenly, with the first and the last; below drift and norms are sparklines; of more than
/// kMostShownRanks ranks the first are shown, and a line says which ones are not. "-" is what was
/// not measured.
std::string table_text(const Table& table, const TableLayout& layout = {});

}  // namespace lockstep
