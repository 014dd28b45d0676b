#include "reports/console_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/names.h"

namespace lockstep {

namespace {

constexpr std::size_t kStepWidth = 4;
constexpr std::size_t kValueWidth = 11;
constexpr std::size_t kSyncedWidth = 7;
constexpr std::size_t kDriftWidth = 12;
constexpr std::size_t kMostRanks = 4;

using Columns = std::vector<Column>;

/// What a row says of a group; nothing measured where the row is short.
Table::Entry entry_of(const Table::Row& row, std::size_t group) {
  return group < row.entries.size() ? row.entries[group] : Table::Entry{};
}

std::string value_text(const Table::Entry& entry, std::size_t i, int digits) {
  if (i >= entry.values.size() || std::isnan(entry.values[i])) return "-";
  return fmt::format("{:.{}f}", entry.values[i], digits);
}

std::string synced_text(const Table::Entry& entry) {
  if (!entry.is_measured()) return "-";
  return entry.synced ? "True" : "False";
}

/// A column with one cell per row of the table.
template <class CellText>
Column column(const Table& table, std::size_t width, std::string heading, CellText cell_text) {
  Column result{width, {std::move(heading)}};
  for (const Table::Row& row : table.rows) result.cells.push_back(cell_text(row));
  for (const std::string& cell : result.cells) result.width = std::max(result.width, cell.size());
  return result;
}

std::size_t ranks_of(const Table& table, std::size_t group) {
  std::size_t ranks = 1;
  for (const Table::Row& row : table.rows) {
    ranks = std::max(ranks, entry_of(row, group).values.size());
  }
  return ranks;
}

Columns element_columns(const Table& table, std::size_t group) {
  Columns columns;
  const std::size_t ranks = ranks_of(table, group);
  for (std::size_t rank = 0; rank < std::min(ranks, kMostRanks); ++rank) {
    std::string heading = fmt::format("{}_r{}", table.spec.symbol, rank);
    if (rank == 0) heading = fmt::format("{} {}", table.spec.groups[group].heading, heading);
    columns.push_back(column(table, kValueWidth, heading, [&](const Table::Row& row) {
      return value_text(entry_of(row, group), rank, table.spec.digits);
    }));
  }
  if (ranks > kMostRanks) {
    columns.push_back(column(table, 3, "...", [](const Table::Row&) { return "..."; }));
  }
  columns.push_back(column(table, kSyncedWidth, "synced", [&](const Table::Row& row) {
    return synced_text(entry_of(row, group));
  }));
  return columns;
}

Columns drift_columns(const Table& table, std::size_t group) {
  return {column(table, kDriftWidth, table.spec.groups[group].heading, [&](const Table::Row& row) {
    return value_text(entry_of(row, group), 0, table.spec.digits);
  })};
}

std::size_t width_of(const Columns& columns) {
  std::size_t width = columns.size() - 1;
  for (const Column& column : columns) width += column.width;
  return width;
}

/// Groups side by side, as many as fit; at least one.
std::vector<std::vector<Columns>> stacked(const Column& step, const std::vector<Columns>& groups) {
  std::vector<std::vector<Columns>> tables;
  std::size_t width = kConsoleWidth;
  for (const Columns& group : groups) {
    const std::size_t added = 3 + width_of(group);
    if (width + added > kConsoleWidth) {
      tables.emplace_back();
      width = step.width;
    }
    tables.back().push_back(group);
    width += added;
  }
  return tables;
}

std::string rows_text(const Column& step, const std::vector<Columns>& groups) {
  std::string text;
  for (std::size_t row = 0; row < step.cells.size(); ++row) {
    text += step.padded(row);
    for (const Columns& group : groups) {
      text += " |";
      for (const Column& column : group) text += " " + column.padded(row);
    }
    text += "\n";
  }
  return text;
}

std::string footnotes(const Table& table) {
  if (table.spec.quantity != Quantity::element) return "";
  std::string text = fmt::format("synced: all ranks hold the same bits of {}'s {}\n",
                                 table.spec.tensor, name(table.spec.kind));
  std::size_t ranks = 0;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    ranks = std::max(ranks, ranks_of(table, group));
  }
  if (ranks > kMostRanks) {
    text +=
        fmt::format("...: of {} ranks the first {} are shown; the csv and json reports hold all\n",
                    ranks, kMostRanks);
  }
  return text;
}

}  // namespace

std::string Column::padded(std::size_t row) const {
  return fmt::format("{:>{}}", cells[row], width);
}

std::string table_text(const Table& table) {
  const Column step = column(table, kStepWidth, "step",
                             [](const Table::Row& row) { return std::to_string(row.step); });
  std::vector<Columns> groups;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    groups.push_back(table.spec.quantity == Quantity::element ? element_columns(table, group)
                                                              : drift_columns(table, group));
  }
  std::string text = table.spec.title + ":\n";
  for (const auto& side_by_side : stacked(step, groups)) text += rows_text(step, side_by_side);
  return text + footnotes(table);
}

}  // namespace lockstep
