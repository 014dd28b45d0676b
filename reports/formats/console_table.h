#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "reports/base/plain_text.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Limits and style of a table.
struct TableLayout {
  std::size_t width = kConsoleWidth;
  std::size_t most_rows = std::numeric_limits<std::size_t>::max();
  bool has_sparklines = false;
};

/// The table of one run in the layout of the published ones, ending in a newline. Groups that
/// exceed the width continue in a table below. Beyond `most_rows`, some rows are shown, evenly,
/// including the first and the last. Sparklines of drift and norms follow. Beyond kMostShownRanks
/// only the first ranks are shown, and a line names the others. "-" means not measured.
std::string table_text(const Table& table, const TableLayout& layout = {});

/// The same without its title.
std::string untitled_table_text(const Table& table, const TableLayout& layout = {});

}  // namespace lockstep
