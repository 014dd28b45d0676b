#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/verdict/table.h"
#include "reference/published_table.h"

namespace lockstep {

/// The tables of a run, which its cells fill while they are judged.
class MeasuredTables {
 public:
  explicit MeasuredTables(const RunRecord& run);

  /// The columns filled by a cell that was run. Valid as long as this.
  StepFolds columns_of(const CellRecord& cell);

  /// Writes the rows of all tables.
  void write_to(RunRecord& run) const;

 private:
  const CellRecord* cell_for(const Table& table, const std::string& variant) const;

  const RunRecord& run_;
  std::vector<std::vector<std::optional<TableColumn>>> columns_;  ///< by table and group
  /// Table and group of the columns that a cell fills.
  std::map<const CellRecord*, std::vector<std::pair<std::size_t, std::size_t>>> filled_by_;
};

bool is_about(const PublishedValue& value, const Cell& cell);

/// Measured values of a cell for published tables.
class MeasuredValues {
 public:
  explicit MeasuredValues(const CellRecord& cell) : cell_(cell) {}

  /// Also measures the values of `table`.
  void add(const PublishedTable& table);

  /// Valid until the next `add`.
  StepFolds folds();

  /// Requires: `value` belongs to an added table and is about the cell.
  std::optional<Measured> of(const PublishedValue& value) const;

 private:
  const TableColumn* find(const TableSpec& spec) const;

  const CellRecord& cell_;
  std::vector<std::pair<TableSpec, TableColumn>> columns_;
};

}  // namespace lockstep
