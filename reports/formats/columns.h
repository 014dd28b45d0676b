#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Alignment of the cells of a column.
enum class Align { left, right };

/// A column of plain text: its heading, then its cells, all padded to the widest, at least
/// `least_width`.
struct Column {
  explicit Column(std::string_view heading, std::size_t least_width = 0, Align side = Align::right);

  void add(std::string_view cell);

  /// The cell at `row`, padded; the heading is row 0.
  std::string padded(std::size_t row) const;

  std::size_t width = 0;
  Align align = Align::right;
  std::vector<std::string> cells;
};

/// Adds one cell to every column. Requires: as many cells as columns.
void append_row(std::vector<Column>& columns, const std::vector<std::string>& cells);

/// The rows of the columns with " | " between, each ending in a newline, without spaces at the end.
std::string side_by_side(const std::vector<Column>& columns);

}  // namespace lockstep
