#include "reports/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep {

Column::Column(std::string heading, std::size_t least_width, Align side)
    : width(least_width), align(side) {
  add(std::move(heading));
}

void Column::add(std::string cell) {
  width = std::max(width, cell.size());
  cells.push_back(std::move(cell));
}

std::string Column::padded(std::size_t row) const {
  return align == Align::left ? fmt::format("{:<{}}", cells[row], width)
                              : fmt::format("{:>{}}", cells[row], width);
}

void append_row(std::vector<Column>& columns, std::vector<std::string> cells) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add(std::move(cells.at(i)));
}

std::string side_by_side(const std::vector<Column>& columns) {
  std::string text;
  for (std::size_t row = 0; row < columns.front().cells.size(); ++row) {
    std::string line;
    for (const Column& column : columns) line += (line.empty() ? "" : " | ") + column.padded(row);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep
