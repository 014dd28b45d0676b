#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/run_record.h"

namespace lockstep {

/// Columns that a terminal or a comment shows without breaking a line.
inline constexpr std::size_t kConsoleWidth = 100;

/// A column of text: its heading, then its cells, all right-aligned to the widest, at least
/// `width`.
struct Column {
  std::size_t width = 0;
  std::vector<std::string> cells;

  /// The cell at `row`, padded.
  std::string padded(std::size_t row) const;
};

/// The table of one run in the layout of the published ones, ending in a newline. Groups that do
/// not fit into kConsoleWidth continue in a table below; of more than four ranks the first four are
/// shown, and a line says which ones are not. "-" is what was not measured.
std::string table_text(const Table& table);

}  // namespace lockstep
