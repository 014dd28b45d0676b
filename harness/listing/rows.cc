#include "harness/listing/rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kGap = 2;

/// The widest text of every column except the last.
std::vector<std::size_t> widths_of(const std::vector<TextRow>& rows) {
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows.front().size() - 1);
  for (const TextRow& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

/// All columns except the last, padded.
std::string start_of(const TextRow& row, const std::vector<std::size_t>& widths) {
  std::string text;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    text += fmt::format("{:<{}}", row[i], widths[i] + kGap);
  }
  return text;
}

std::string without_blanks_behind(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string cut(const std::string& text, std::size_t width) {
  constexpr std::string_view kRest = "...";
  std::size_t columns = 0;
  std::size_t fitting = 0;  // bytes before the dots
  for (std::size_t at = 0; at < text.size(); ++columns) {
    if (columns == width) return text.substr(0, fitting) + std::string(kRest.substr(0, width));
    if (columns + kRest.size() <= width) fitting = at;
    at += std::max<std::size_t>(1, character_length(text, at));
  }
  return text;
}

std::string cut_rows(const std::vector<TextRow>& rows, std::optional<std::size_t> width) {
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string text;
  for (const TextRow& row : rows) {
    const std::string line = without_blanks_behind(start_of(row, widths) + row.back());
    text += (width ? cut(line, *width) : line) + "\n";
  }
  return text;
}

std::string wrapped_rows(const std::vector<TextRow>& rows, std::size_t indent, std::size_t width) {
  constexpr std::size_t kLeastRoom = 30;
  const std::vector<std::size_t> widths = widths_of(rows);
  std::string text;
  for (const TextRow& row : rows) {
    const std::string start = std::string(indent, ' ') + start_of(row, widths);
    if (row.back().empty()) {
      text += without_blanks_behind(start) + "\n";
    } else if (start.size() + kLeastRoom <= width) {
      text += wrapped(row.back(), start.size(), 0, width).replace(0, start.size(), start);
    } else {
      text += without_blanks_behind(start) + "\n" + wrapped(row.back(), indent + 4, 0, width);
    }
  }
  return text;
}

}  // namespace lockstep
