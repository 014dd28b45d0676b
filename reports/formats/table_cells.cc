#include "reports/formats/table_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/base/names.h"

namespace lockstep {

Table::Entry entry_of(const Table::Row& row, std::size_t group) {
  return group < row.entries.size() ? row.entries[group] : Table::Entry{};
}

std::size_t ranks_of(const Table& table, std::size_t group) {
  std::size_t ranks = 1;
  for (const Table::Row& row : table.rows) {
    ranks = std::max(ranks, entry_of(row, group).values.size());
  }
  return ranks;
}

bool has_drift(const Table& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), [](const Table::Row& row) {
    return std::any_of(row.entries.begin(), row.entries.end(),
                       [](const Table::Entry& entry) { return entry.drift.has_value(); });
  });
}

std::string step_text(const Table& table, const Table::Row& row) {
  return std::to_string(row.step - 1 + table.spec.first_step);
}

std::string value_text(const TableSpec& spec, const Table::Entry& entry, std::size_t i) {
  if (i >= entry.values.size()) return "-";
  if (std::isnan(entry.values[i])) {
    return entry.estimate ? fmt::format("L2 ~{:.1e}", *entry.estimate) : "-";
  }
  if (spec.quantity == Quantity::distance) return fmt::format("{:.3e}", entry.values[i]);
  if (spec.digits == 0) return fmt::format("{:.4g}", entry.values[i]);
  return fmt::format("{:.{}f}", entry.values[i], spec.digits);
}

bool tells_agreement(const TableSpec& spec, const Table::Entry& entry) {
  const bool has_gap = std::any_of(entry.values.begin(), entry.values.end(),
                                   [](double value) { return std::isnan(value); });
  // Of equal bits, either all norms are numbers or none is.
  const bool lacks_a_rank = spec.quantity == Quantity::norm && entry.synced && has_gap;
  return entry.is_measured() && !lacks_a_rank;
}

std::string synced_text(const TableSpec& spec, const Table::Entry& entry) {
  if (!tells_agreement(spec, entry)) return "-";
  return entry.synced ? "True" : "False";
}

std::string subject_of(const TableSpec& spec) {
  if (spec.tensor == name(spec.kind)) return "the " + spec.tensor;
  return spec.tensor.empty() ? fmt::format("all {}", plural(spec.kind))
                             : fmt::format("{}'s {}", spec.tensor, name(spec.kind));
}

std::string ranks_footnote(const Table& table) {
  std::size_t ranks = 0;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    ranks = std::max(ranks, ranks_of(table, group));
  }
  if (ranks <= kMostShownRanks) return "";
  return fmt::format("...: the first {} of {} ranks are shown; the csv and json reports have all\n",
                     kMostShownRanks, ranks);
}

}  // namespace lockstep
