#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// One line of a CSV file.
struct CsvRow {
  std::int64_t line = 0;                ///< in the file, from 1
  std::uint64_t offset = 0;             ///< of its first byte in the file
  std::vector<std::string_view> cells;  ///< valid until the next row is read
};

/// Treatment of a last line without a newline.
enum class TornTail { is_an_error, is_left_out };

/// Format of one kind of CSV file.
struct CsvKind {
  const std::vector<std::string_view>& columns;
  TornTail torn_tail = TornTail::is_an_error;
  std::uint64_t most_bytes = 0;  ///< larger files are rejected
  bool has_remark = false;       ///< the line `# ...` may precede the header
};

/// Content of a CSV file apart from its rows.
struct CsvFrame {
  std::string remark;      ///< text after `# `; empty: none
  bool torn_tail = false;  ///< the last line had no newline and was skipped
  std::uint64_t end = 0;   ///< offset after the last whole line
  std::int64_t lines = 0;  ///< number of that line
};

/// Whole lines of a CSV file, without the header.
struct CsvPart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::int64_t line = 0;  ///< number of the first, from 1
};

/// Reads the CSV file at `path` and passes each row to `visit`, in order. The header must be
/// exactly the columns. A cell in double quotes may hold commas and doubled quotes, but no newline.
/// Lines may end in CR LF, and a byte order mark is skipped. Throws Error (usage) with file, line,
/// column and the expected content; the column is the number of the cell, from 1. An empty file and
/// a line of 16 MiB are malformed. Memory use is the longest line plus 1 MiB.
CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind,
                  const std::function<void(const CsvRow&)>& visit);

/// The same for a part that an earlier read found.
CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind, const CsvPart& part,
                  const std::function<void(const CsvRow&)>& visit);

/// Reads the header alone; `end` is the offset after it.
CsvFrame read_csv_header(const std::filesystem::path& path, const CsvKind& kind);

/// The cell at `column` (from 0) as a number. `columns` provides its name for errors. Throws Error
/// (usage).
std::int64_t to_int(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                    const std::vector<std::string_view>& columns);
double to_double(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                 const std::vector<std::string_view>& columns);

/// `cell` in the form of a CSV file, quoted if necessary. Each byte of a control character, such as
/// a newline, becomes `\xNN`, as do characters that change the writing direction. A backslash
/// becomes `\\`. So a row is always one line.
std::string csv_cell(std::string_view cell);

/// The inverse of `csv_cell`, for text that the CSV reader returned. A backslash without a valid
/// escape stays as it is.
std::string unescape_cell(std::string_view cell);

/// The shortest decimal that reads back as `value`; "nan", "inf", "-inf".
std::string exact_decimal(double value);

}  // namespace lockstep
