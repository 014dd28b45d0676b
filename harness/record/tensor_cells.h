#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/observation.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"

namespace lockstep {

/// The CSV cells of a tensor, separated by commas, in the order of `tensor_columns`.
std::string tensor_cells(const ObservedTensor& tensor);

/// The columns "phase" to "not_comparable".
const std::vector<std::string_view>& tensor_columns();

/// Whether elements of this type are whole numbers.
bool is_of_whole_numbers(const std::string& dtype);

/// One row of a journal or a tensor table, cell by cell. Every error names the cell.
class RecordRow {
 public:
  RecordRow(const CsvRow& row, const std::filesystem::path& path,
            const std::vector<std::string_view>& columns)
      : row_(row), path_(path), columns_(columns) {}

  /// A whole number of at least `least`.
  std::int64_t whole(std::size_t column, std::int64_t least) const;
  double number(std::size_t column) const;
  std::string text(std::size_t column) const;
  std::string_view cell(std::size_t column) const { return row_.cells[column]; }
  /// 32 hexadecimal digits.
  Digest digest(std::size_t column) const;
  /// An element of a tensor; empty if the cell is empty. `is_whole`: the tensor holds whole
  /// numbers.
  Extreme extreme(std::size_t column, bool is_whole) const;

  /// The tensor whose cells begin at `first`.
  ObservedTensor tensor(std::size_t first) const;

  Error refusal(std::size_t column, std::string_view expected) const;

 private:
  template <class Enum>
  Enum word(std::size_t column) const;
  std::vector<std::int64_t> shape(std::size_t column) const;
  std::vector<std::int64_t> shape_like(const std::vector<std::int64_t>& other,
                                       std::size_t column) const;

  const CsvRow& row_;
  const std::filesystem::path& path_;
  const std::vector<std::string_view>& columns_;
};

}  // namespace lockstep
