#include "reports/base/csv_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/plain_text.h"
#include "reports/base/regular_file.h"

// Its reader thread would be in an undefined state after a fork.
#define CSV_IO_NO_THREAD
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#include <libfccp/csv.h>
#pragma GCC diagnostic pop

namespace lockstep {
namespace {

using Quotes = io::double_quote_escape<',', '"'>;

constexpr std::string_view kRemark = "# ";
constexpr std::string_view kMark = "\xef\xbb\xbf";  // byte order mark; the parser skips it

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

/// Appends one character of a cell. Bytes that a terminal would obey are escaped.
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

constexpr std::size_t kLongestLine = 16 * kMebibyte;

/// The lines of a part of a file.
class Lines {
 public:
  Lines(const std::filesystem::path& path, std::uint64_t most_bytes)
      : Lines(path, most_bytes, CsvPart{0, 0, 1}) {
    part_.bytes = file_.size();
  }

  Lines(const std::filesystem::path& path, std::uint64_t most_bytes, const CsvPart& part)
      : path_(path.string()), file_(path, most_bytes), part_(part), line_(part.line - 1) {}

  /// The next line, with a NUL in place of its newline; null after the last whole one. Valid until
  /// the next call.
  char* next() {
    begin_ = next_;
    offset_ = part_.offset + consumed_;
    std::size_t searched = begin_;
    for (;;) {
      const std::string_view unsearched(buffer_.data() + searched, buffer_.size() - searched);
      const std::size_t newline = unsearched.find('\n');
      if (newline != unsearched.npos) return line_until(buffer_.data() + searched + newline);
      searched = buffer_.size() - begin_;
      if (!fill()) return nullptr;
    }
  }

  std::int64_t line() const { return line_; }
  /// Offset of the last line returned by `next`, or of the remainder after the last one.
  std::uint64_t offset() const { return offset_; }
  /// Offset of the data after the line returned by `next`.
  std::uint64_t next_offset() const { return part_.offset + consumed_; }
  /// The remainder after the last whole line. Requires: `next` has returned null.
  std::string_view tail() const { return {buffer_.data() + begin_, buffer_.size() - begin_}; }

  const std::string& path() const { return path_; }

 private:
  char* line_until(char* newline) {
    ++line_;
    char* const begin = buffer_.data() + begin_;
    const auto length = static_cast<std::size_t>(newline - begin);
    if (length >= kLongestLine) refuse_length(line_);
    if (std::string_view(begin, length).find('\0') != std::string_view::npos) {
      throw malformed(path_, line_, 0, "text", std::string_view("\0", 1));
    }
    next_ = begin_ + length + 1;
    consumed_ += length + 1;
    *newline = 0;
    if (length > 0 && newline[-1] == '\r') newline[-1] = 0;
    const bool has_mark = offset_ == 0 && std::string_view(begin, length).starts_with(kMark);
    return begin + (has_mark ? kMark.size() : 0);
  }

  /// Moves the data from `begin_` on to the front and reads more; false at the end.
  bool fill() {
    const std::uint64_t count = std::min(chunk_, part_.bytes - read_);
    chunk_ = std::min(2 * chunk_, kMebibyte);
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = next_ = 0;
    if (count == 0) return false;
    if (buffer_.size() > kLongestLine) refuse_length(line_ + 1);
    const std::string more = file_.read(part_.offset + read_, count);
    buffer_.insert(buffer_.end(), more.begin(), more.end());
    read_ += count;
    return true;
  }

  [[noreturn]] void refuse_length(std::int64_t line) const {
    throw malformed(path_, line, 0, "a line of less than 16 MiB", "a longer one");
  }

  std::string path_;
  RegularFile file_;
  CsvPart part_;
  std::vector<char> buffer_;
  std::uint64_t chunk_ = 4096;  ///< size of the next read: small for a header, growing with the
                                ///< file
  std::size_t begin_ = 0;       ///< of the returned line, in the buffer
  std::size_t next_ = 0;        ///< of the line after it
  std::uint64_t read_ = 0;      ///< bytes of the part read so far
  std::uint64_t consumed_ = 0;  ///< bytes of the part in returned lines
  std::uint64_t offset_ = 0;
  std::int64_t line_ = 0;
};

/// Splits lines into cells.
class Reader {
 public:
  template <class... Arguments>
  explicit Reader(const Arguments&... arguments) : lines_(arguments...) {}

  /// The first line if it begins with `kRemark`; then the next row is the header.
  std::string remark() {
    first_ = lines_.next();
    if (first_ == nullptr || !std::string_view(first_).starts_with(kRemark)) return "";
    return std::exchange(first_, nullptr) + kRemark.size();
  }

  /// Null after the last row. Valid until the next call.
  const CsvRow* next() {
    char* line = first_ != nullptr ? std::exchange(first_, nullptr) : lines_.next();
    if (line == nullptr) return nullptr;
    row_.line = lines_.line();
    row_.offset = lines_.offset();
    row_.cells.clear();
    const bool has_quotes = std::strchr(line, '"') != nullptr;
    while (line != nullptr) row_.cells.push_back(next_cell(line, has_quotes));
    return &row_;
  }

  const Lines& lines() const { return lines_; }

 private:
  // Removes the next cell from `line`, which is null after the last one.
  std::string_view next_cell(char*& line, bool has_quotes) {
    char* begin = line;
    char* end = nullptr;
    try {
      io::detail::chop_next_column<Quotes>(line, begin, end);
    } catch (const io::error::escaped_string_not_closed&) {
      throw refusal("a closing quote on the same line", begin);
    }
    const std::string_view raw(begin, static_cast<std::size_t>(end - begin));
    if (!has_quotes || raw.find('"') == std::string_view::npos) return raw;
    const std::string quoted(raw);
    Quotes::unescape(begin, end);
    const std::string_view cell(begin, static_cast<std::size_t>(end - begin));
    if (quoted == in_quotes(cell)) return cell;
    throw refusal("quotes around a whole cell only, doubled inside", quoted);
  }

  Error refusal(std::string_view expected, std::string_view found) const {
    const auto column = static_cast<std::int64_t>(row_.cells.size()) + 1;
    return malformed(lines_.path(), row_.line, column, expected, found);
  }

  Lines lines_;
  char* first_ = nullptr;  ///< the first line, if it is no remark
  CsvRow row_;
};

void require_header(const std::string& path, const CsvRow* header, const CsvKind& kind) {
  const std::vector<std::string_view>& columns = kind.columns;
  const auto column_at = [&](std::size_t i) {
    return i < columns.size() ? fmt::format("the column '{}'", columns[i])
                              : std::string("the end of the header");
  };
  if (!header) throw malformed(path, 1, 1, column_at(0), "");
  const std::vector<std::string_view>& cells = header->cells;
  for (std::size_t i = 0; i < std::max(cells.size(), columns.size()); ++i) {
    const bool same = i < cells.size() && i < columns.size() && cells[i] == columns[i];
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
  const std::string_view cell = row.cells.at(column);
  const char* const end = cell.data() + cell.size();
  Number number{};
  const auto [stop, error] = std::from_chars(cell.data(), end, number);
  if (error != std::errc() || stop != end) {
    throw malformed(path.string(), row.line, static_cast<std::int64_t>(column) + 1,
                    fmt::format("{} as '{}'", kind, columns.at(column)), cell);
  }
  return number;
}

/// Reads the lines before the rows.
CsvFrame read_head(Reader& reader, const CsvKind& kind) {
  CsvFrame frame;
  if (kind.has_remark) frame.remark = reader.remark();
  require_header(reader.lines().path(), reader.next(), kind);
  return frame;
}

/// Reads the remaining rows.
void read_rows(Reader& reader, const CsvKind& kind, const std::function<void(const CsvRow&)>& visit,
               CsvFrame& frame) {
  const std::string& name = reader.lines().path();
  while (const CsvRow* const row = reader.next()) {
    require_width(name, *row, kind.columns);
    visit(*row);
  }
  frame.torn_tail = !reader.lines().tail().empty();
  frame.end = reader.lines().offset();
  frame.lines = reader.lines().line();
  if (frame.torn_tail && kind.torn_tail == TornTail::is_an_error) {
    throw malformed(name, reader.lines().line() + 1, 0, "a newline at the end of the last line",
                    reader.lines().tail());
  }
}

}  // namespace

CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind,
                  const std::function<void(const CsvRow&)>& visit) {
  Reader reader(path, kind.most_bytes);
  CsvFrame frame = read_head(reader, kind);
  read_rows(reader, kind, visit, frame);
  return frame;
}

CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind, const CsvPart& part,
                  const std::function<void(const CsvRow&)>& visit) {
  Reader reader(path, kind.most_bytes, part);
  CsvFrame frame;
  read_rows(reader, kind, visit, frame);
  return frame;
}

CsvFrame read_csv_header(const std::filesystem::path& path, const CsvKind& kind) {
  Reader reader(path, kind.most_bytes);
  CsvFrame frame = read_head(reader, kind);
  frame.end = reader.lines().next_offset();
  frame.lines = reader.lines().line();
  return frame;
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
    // A byte outside any character stays as it is.
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
