#include "harness/verdict/measured_tables.h"

#include <algorithm>

namespace lockstep {

MeasuredTables::MeasuredTables(const RunRecord& run) : run_(run) {
  for (const Table& table : run.tables) {
    auto& columns = columns_.emplace_back(table.spec.groups.size());
    for (std::size_t group = 0; group < columns.size(); ++group) {
      const CellRecord* const cell = cell_for(table, table.spec.groups[group].variant);
      if (cell) filled_by_[cell].emplace_back(columns_.size() - 1, group);
    }
  }
}

StepFolds MeasuredTables::columns_of(const CellRecord& cell) {
  StepFolds columns;
  const auto filled = filled_by_.find(&cell);
  if (filled == filled_by_.end()) return columns;
  for (const auto& [table, group] : filled->second) {
    columns.push_back(columns_[table][group].emplace(run_.tables[table].spec, cell.processes));
  }
  return columns;
}

void MeasuredTables::write_to(RunRecord& run) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::vector<const TableColumn*> groups;
    for (const auto& column : columns_[i]) groups.push_back(column ? &*column : nullptr);
    run.tables[i].rows = table_of(run.tables[i].spec, groups).rows;
  }
}

/// The first run of a variant under the conditions of a table; null if there is none.
const CellRecord* MeasuredTables::cell_for(const Table& table, const std::string& variant) const {
  const auto found = std::find_if(run_.cells.begin(), run_.cells.end(), [&](const auto& record) {
    const Cell& cell = record.cell;
    return cell.scenario == table.scenario && cell.variant == variant &&
           cell.world_size == table.world_size && cell.axes == table.axes && cell.repetition == 1;
  });
  return found == run_.cells.end() ? nullptr : &*found;
}

bool is_about(const PublishedValue& value, const Cell& cell) {
  return cell.scenario == value.scenario && cell.variant == value.variant &&
         cell.world_size == value.world_size;
}

namespace {

/// The quantity to measure for a published one. `synced` comes with an element or, for all tensors
/// together, with a norm.
Quantity quantity_of(const PublishedValue& value) {
  switch (value.quantity) {
    case PublishedQuantity::drift:
      return Quantity::drift;
    case PublishedQuantity::norm:
      return Quantity::norm;
    case PublishedQuantity::synced:
    case PublishedQuantity::element:
      break;
  }
  return value.tensor == "*" ? Quantity::norm : Quantity::element;
}

/// The table to measure for a published value; empty if it names a quantity that is not measured.
std::optional<TableSpec> spec_of(const PublishedValue& value) {
  const auto kind = parse<Kind>(value.kind);
  const auto phase = parse<Phase>(value.phase);
  if (!kind || !phase) return std::nullopt;
  TableSpec spec;
  spec.quantity = quantity_of(value);
  spec.kind = *kind;
  spec.phase = *phase;
  if (value.tensor != "*") spec.tensor = value.tensor;
  spec.element = value.element;
  spec.steps = {value.step - value.step_base + 1};
  return spec;
}

}  // namespace

void MeasuredValues::add(const PublishedTable& table) {
  for (const PublishedValue& value : table.values) {
    const auto spec = is_about(value, cell_.cell) ? spec_of(value) : std::nullopt;
    if (spec && !find(*spec)) columns_.emplace_back(*spec, TableColumn(*spec, cell_.processes));
  }
}

StepFolds MeasuredValues::folds() {
  StepFolds folds;
  for (auto& [spec, column] : columns_) folds.push_back(column);
  return folds;
}

std::optional<Measured> MeasuredValues::of(const PublishedValue& value) const {
  const auto spec = spec_of(value);
  const TableColumn* const column = spec ? find(*spec) : nullptr;
  if (!column || column->steps().empty()) return std::nullopt;
  const Table::Entry entry = column->at(spec->steps.front());
  if (!entry.is_measured()) return std::nullopt;
  return Measured{entry.values, entry.synced};
}

const TableColumn* MeasuredValues::find(const TableSpec& spec) const {
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [&](const auto& entry) { return entry.first == spec; });
  return found == columns_.end() ? nullptr : &found->second;
}

}  // namespace lockstep
