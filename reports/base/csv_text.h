#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
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

/// What to do with a last line that does not end in a newline.
enum class TornTail { is_an_error, is_left_out };

/// A column that older files have under another name.
struct RenamedColumn {
  std::string_view name;
  std::string_view former;
};

/// What a kind of CSV file is.
struct CsvKind {
  const std::vector<std::string_view>& columns;
  TornTail torn_tail = TornTail::is_an_error;
  std::uint64_t most_bytes = 0;  ///< a larger file is refused
  bool has_remark = false;       ///< the line `# ...` may stand before the header
  std::span<const RenamedColumn> renamed = {};
};

/// What of a CSV file is no row.
struct CsvFrame {
  std::string remark;      ///< behind `# `; empty: there is none
  bool torn_tail = false;  ///< the last line had no newline and was left out
  std::uint64_t end = 0;   ///< offset behind the last whole line
  std::int64_t lines = 0;  ///< number of that line
};

/// Whole lines of a CSV file, none of which is the header.
struct CsvPart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::int64_t line = 0;  ///< number of the first, from 1
};

/// Reads the CSV file at `path` and hands each row to `visit`, in order. The header must be exactly
/// the columns. A cell in double quotes may hold commas and doubled quotes; none holds a newline.
/// Lines may end in CR LF, and a byte order mark is skipped. Throws Error (usage) with file, line,
/// column and what was expected, the column being the number of the cell, from 1; an empty file is
/// malformed, and so is a line of 16 MiB. Holds no more of the file in memory than its longest line
/// and 1 MiB.
CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind,
                  const std::function<void(const CsvRow&)>& visit);

/// The same of a part that an earlier reading found.
CsvFrame read_csv(const std::filesystem::path& path, const CsvKind& kind, const CsvPart& part,
                  const std::function<void(const CsvRow&)>& visit);

/// Reads the header alone; `end` is behind it.
CsvFrame read_csv_header(const std::filesystem::path& path, const CsvKind& kind);

/// The cell at `column` (from 0) as a number. `columns` names it in errors. Throws Error (usage).
std::int64_t to_int(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                    const std::vector<std::string_view>& columns);
double to_double(const CsvRow& row, std::size_t column, const std::filesystem::path& path,
                 const std::vector<std::string_view>& columns);

/// `cell` as it stands in a CSV file: quoted when it has to be. Each byte of a control character (a
/// newline too), and of one that turns the direction of writing, becomes `\xNN`, a backslash `\\`,
/// so that a line is a row whatever the text.
std::string csv_cell(std::string_view cell);

/// The text that `csv_cell` was given, from what the CSV reader returned. A backslash that begins
/// no such escape stands for itself.
std::string unescape_cell(std::string_view cell);

/// The shortest decimal that reads back as `value`; "nan", "inf", "-inf".
std::string exact_decimal(double value);

}  // namespace lockstep
