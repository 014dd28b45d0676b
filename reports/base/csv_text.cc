#include "reports/base/csv_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/plain_text.h"
#include "reports/base/regular_file.h"

// Its reader thread would outlive a fork in an undefined state.
#define CSV_IO_NO_THREAD
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#include <libfccp/csv.h>
#pragma GCC diagnostic pop

namespace lockstep {
namespace {

using Quotes = io::double_quote_escape<',', '"'>;

constexpr std::string_view kRemark = "# ";
constexpr std::string_view kMark = "\xef\xbb\xbf";  // of the order of bytes; the parser skips it

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

/// One character of a cell, byte by byte where a terminal would obey it.
void append_escaped(std::string& text, std::string_view character) {
  if (character == "\\") {
    text += "\\\\";
  } else if (!is_obeyed(character)) {
    text += character;
  } else {
    for (const char c : character) {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
}

class Reader {
 public:
  Reader(std::string path, const std::string& text)
      : path_(std::move(path)), lines_(path_, text.data(), text.data() + text.size()) {}

  /// Of a first line that begins with `kRemark`.
  std::string remark() { return next_line() + kRemark.size(); }

  std::optional<CsvRow> next() {
    char* line = next_line();
    if (line == nullptr) return std::nullopt;
    CsvRow row{static_cast<std::int64_t>(lines_.get_file_line()), {}};
    while (line != nullptr) row.cells.push_back(next_cell(line, row));
    return row;
  }

 private:
  char* next_line() {
    try {
      return lines_.next_line();
    } catch (const io::error::line_length_limit_exceeded&) {
      throw malformed(path_, lines_.get_file_line(), 0, "a line of less than 16 MiB",
                      "a longer one");
    }
  }

  // Cuts the next cell off `line`, which is null after the last one.
  std::string next_cell(char*& line, const CsvRow& row) {
    char* begin = line;
    char* end = nullptr;
    try {
      io::detail::chop_next_column<Quotes>(line, begin, end);
    } catch (const io::error::escaped_string_not_closed&) {
      throw refusal(row, "a closing quote on the same line", begin);
    }
    const std::string raw(begin, end);
    Quotes::unescape(begin, end);
    std::string cell(begin, end);
    if (raw.find('"') != std::string::npos && raw != in_quotes(cell)) {
      throw refusal(row, "quotes around a whole cell only, doubled inside", raw);
    }
    return cell;
  }

  Error refusal(const CsvRow& row, std::string_view expected, std::string_view found) const {
    const auto column = static_cast<std::int64_t>(row.cells.size()) + 1;
    return malformed(path_, row.line, column, expected, found);
  }

  std::string path_;
  io::LineReader lines_;
};

// The parser takes a NUL for the end of a line.
void require_text(const std::string& path, const std::string& text) {
  const std::size_t nul = text.find('\0');
  if (nul == std::string::npos) return;
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n');
  throw malformed(path, line + 1, 0, "text", std::string_view("\0", 1));
}

// The parser takes a row that is torn inside a number for a whole one.
bool drop_torn_tail(const std::string& path, std::string& text, TornTail torn_tail) {
  if (text.empty() || text.back() == '\n') return false;
  const std::size_t begin = text.find_last_of('\n') + 1;
  if (torn_tail == TornTail::is_an_error) {
    throw malformed(path, std::count(text.begin(), text.end(), '\n') + 1, 0,
                    "a newline at the end of the last line", text.substr(begin));
  }
  text.resize(begin);
  return true;
}

void require_header(const std::string& path, const std::optional<CsvRow>& header,
                    const CsvKind& kind) {
  const std::vector<std::string_view>& columns = kind.columns;
  const auto is_column = [&](const std::string& cell, std::string_view column) {
    return cell == column ||
           std::any_of(kind.renamed.begin(), kind.renamed.end(), [&](const RenamedColumn& renamed) {
             return renamed.name == column && renamed.former == cell;
           });
  };
  const auto column_at = [&](std::size_t i) {
    return i < columns.size() ? fmt::format("the column '{}'", columns[i])
                              : std::string("the end of the header");
  };
  if (!header) throw malformed(path, 1, 1, column_at(0), "");
  const std::vector<std::string>& cells = header->cells;
  for (std::size_t i = 0; i < std::max(cells.size(), columns.size()); ++i) {
    const bool same = i < cells.size() && i < columns.size() && is_column(cells[i], columns[i]);
    if (!same) {
      throw malformed(path, header->line, static_cast<std::int64_t>(i) + 1, column_at(i),
                      i < cells.size() ? cells[i] : "");
    }
  }
}

void require_width(const std::string& path, const CsvRow& row,
                   const std::vector<std::string_view>& columns) {
  const std::size_t found = row.cells.size();
  if (found < columns.size()) {
    throw malformed(path, row.line, static_cast<std::int64_t>(found) + 1,
                    fmt::format("the cell '{}'", columns[found]), "");
  }
  if (found > columns.size()) {
    throw malformed(path, row.line, static_cast<std::int64_t>(columns.size()) + 1,
                    fmt::format("{} cells", columns.size()), row.cells[columns.size()]);
  }
}

template <class Number>
Number to_number(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                 const std::vector<std::string_view>& columns, std::string_view kind) {
  const std::string& cell = row.cells.at(column);
  const char* const end = cell.data() + cell.size();
  Number number{};
  const auto [stop, error] = std::from_chars(cell.data(), end, number);
  if (error != std::errc() || stop != end) {
    throw malformed(path.string(), row.line, static_cast<std::int64_t>(column) + 1,
                    fmt::format("{} as '{}'", kind, columns.at(column)), cell);
  }
  return number;
}

}  // namespace

CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind,
                  const std::function<void(const CsvRow&)>& visit) {
  const std::string name = path.string();
  std::string text = read_text(path, kind.most_bytes);
  require_text(name, text);
  CsvFrame frame;
  frame.torn_tail = drop_torn_tail(name, text, kind.torn_tail);
  Reader reader(name, text);
  const std::string_view begin = std::string_view(text).substr(text.starts_with(kMark) ? 3 : 0);
  if (kind.has_remark && begin.starts_with(kRemark)) frame.remark = reader.remark();
  require_header(name, reader.next(), kind);
  while (const std::optional<CsvRow> row = reader.next()) {
    require_width(name, *row, kind.columns);
    visit(*row);
  }
  return frame;
}

CsvFile read_csv(const std::filesystem::path& path, const std::vector<std::string_view>& columns,
                 TornTail torn_tail) {
  CsvFile file;
  const CsvKind kind{columns, torn_tail, kLargestPublishedTable};
  file.torn_tail =
      read_csv(path, kind, [&](const CsvRow& row) { file.rows.push_back(row); }).torn_tail;
  return file;
}

std::int64_t to_int(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                    const std::vector<std::string_view>& columns) {
  return to_number<std::int64_t>(row, column, path, columns, "a whole number");
}

double to_double(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                 const std::vector<std::string_view>& columns) {
  return to_number<double>(row, column, path, columns, "a number");
}

std::string csv_cell(std::string_view cell) {
  std::string text;
  for (std::size_t at = 0; at < cell.size();) {
    // A byte that belongs to no character stands for itself.
    const std::size_t length = std::max<std::size_t>(character_length(cell, at), 1);
    append_escaped(text, cell.substr(at, length));
    at += length;
  }
  return text.find_first_of(",\"") == std::string::npos ? text : in_quotes(text);
}

std::string unescape_cell(std::string_view cell) {
  std::string text;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    const std::string_view rest = cell.substr(i);
    unsigned byte = 0;
    if (rest.substr(0, 2) == "\\\\") {
      text += '\\';
      ++i;
    } else if (rest.size() >= 4 && rest.substr(0, 2) == "\\x" &&
               std::from_chars(&rest[2], &rest[2] + 2, byte, 16).ptr == &rest[2] + 2) {
      text += static_cast<char>(byte);
      i += 3;
    } else {
      text += cell[i];
    }
  }
  return text;
}

std::string exact_decimal(double value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace lockstep
