#include "reports/formats/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/base/plain_text.h"

namespace lockstep {

Column::Column(std::string_view heading, std::size_t least_width, Align side)
    : width(least_width), align(side) {
  add(heading);
}

void Column::add(std::string_view cell) {
  cells.push_back(plain(cell));
  width = std::max(width, cells.back().size());
}

std::string Column::padded(std::size_t row) const {
  return align == Align::left ? fmt::format("{:<{}}", cells[row], width)
                              : fmt::format("{:>{}}", cells[row], width);
}

void append_row(std::vector<Column>& columns, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add(cells.at(i));
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
