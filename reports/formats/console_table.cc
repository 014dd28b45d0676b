#include "reports/formats/console_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "reports/base/plain_text.h"
#include "reports/formats/columns.h"
#include "reports/formats/norm_table.h"
#include "reports/formats/sparkline.h"
#include "reports/formats/table_cells.h"
#include "reports/formats/table_sparklines.h"

namespace lockstep {

namespace {

constexpr std::size_t kStepWidth = 4;
constexpr std::size_t kValueWidth = 11;
constexpr std::size_t kSyncedWidth = 7;
constexpr std::size_t kDriftWidth = 12;

using Columns = std::vector<Column>;

/// A column with one cell per row of the table.
template <class CellText>
Column column(const Table& table, std::size_t width, const std::string& heading,
              CellText cell_text) {
  Column result(heading, width);
  for (const Table::Row& row : table.rows) result.add(cell_text(row));
  return result;
}

/// One column per shown rank.
Columns rank_columns(const Table& table, std::size_t group) {
  const TableSpec& spec = table.spec;
  Columns columns;
  const std::size_t ranks = ranks_of(table, group);
  for (std::size_t rank = 0; rank < std::min(ranks, kMostShownRanks); ++rank) {
    std::string heading = fmt::format("{}_r{}", spec.symbol, rank);
    if (rank == 0) heading = fmt::format("{} {}", spec.groups[group].heading, heading);
    columns.push_back(column(table, kValueWidth, heading, [&](const Table::Row& row) {
      return value_text(spec, entry_of(row, group), rank);
    }));
  }
  if (ranks > kMostShownRanks) {
    columns.push_back(column(table, 0, "...", [](const Table::Row&) { return "..."; }));
  }
  return columns;
}

Columns element_columns(const Table& table, std::size_t group) {
  Columns columns = rank_columns(table, group);
  columns.push_back(column(table, kSyncedWidth, "synced", [&](const Table::Row& row) {
    return synced_text(table.spec, entry_of(row, group));
  }));
  return columns;
}

bool has_estimate(const Table& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), [](const Table::Row& row) {
    return std::any_of(row.entries.begin(), row.entries.end(),
                       [](const Table::Entry& entry) { return entry.estimate.has_value(); });
  });
}

/// Whether a step without an estimate is one in which ranks hold the same, or has no value.
bool has_only_estimates(const Table& table) {
  if (!has_estimate(table)) return false;
  return std::all_of(table.rows.begin(), table.rows.end(), [](const Table::Row& row) {
    return std::all_of(row.entries.begin(), row.entries.end(), [](const Table::Entry& entry) {
      return entry.values.empty() || std::isnan(entry.values[0]) || entry.values[0] == 0;
    });
  });
}

/// The largest difference and an estimated norm are different quantities: a column of estimates
/// alone is named after them, and in another one each says that it is one.
Columns drift_columns(const Table& table, std::size_t group) {
  const std::string& given = table.spec.groups[group].heading;
  const bool is_norm = has_only_estimates(table);
  const std::string heading = is_norm ? "~L2|Wi-W0|" : "max|Wi-Wj|";
  return {column(table, kDriftWidth, given.empty() ? heading : given, [&](const Table::Row& row) {
    const Table::Entry entry = entry_of(row, group);
    if (is_norm && entry.estimate) return fmt::format("{:.1e}", *entry.estimate);
    return value_text(table.spec, entry, 0);
  })};
}

Columns columns_of(const Table& table, std::size_t group) {
  switch (table.spec.quantity) {
    case Quantity::element:
      return element_columns(table, group);
    case Quantity::distance:
      return rank_columns(table, group);
    default:
      return drift_columns(table, group);
  }
}

std::size_t width_of(const Columns& columns) {
  std::size_t width = columns.size() - 1;
  for (const Column& column : columns) width += column.width;
  return width;
}

/// Groups side by side, as many as fit; at least one.
std::vector<std::vector<Columns>> stacked(const Column& step, const std::vector<Columns>& groups,
                                          std::size_t most) {
  std::vector<std::vector<Columns>> tables;
  std::size_t width = most;
  for (const Columns& group : groups) {
    const std::size_t added = 3 + width_of(group);
    if (width + added > most) {
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
  const TableSpec& spec = table.spec;
  switch (spec.quantity) {
    case Quantity::element:
      return fmt::format("synced: all ranks hold the same bits of {}\n", plain(subject_of(spec))) +
             ranks_footnote(table);
    case Quantity::distance:
      return fmt::format("{0}_rN: max |value on rank N - value on rank 0| over {1}\n",
                         plain(spec.symbol), plain(subject_of(spec))) +
             ranks_footnote(table);
    case Quantity::norm:
      return fmt::format("norm: of {} on a rank; synced: all ranks hold the same bits\n{}",
                         plain(subject_of(spec)),
                         has_drift(table)
                             ? "drift: max|W_i - W_j| over all parameters, before the step\n"
                             : "") +
             ranks_footnote(table);
    case Quantity::drift:
      break;
  }
  if (!has_estimate(table)) return "";
  return fmt::format(
      "{}: values were not stored; the norm of the difference from rank 0, estimated\n",
      has_only_estimates(table) ? "~L2" : "L2 ~");
}

/// The first row in which ranks hold other bits, after one in which they do not; 0: there is none.
std::size_t first_difference(const Table& table) {
  for (std::size_t row = 1; row < table.rows.size(); ++row) {
    for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
      const bool was_synced = entry_of(table.rows[row - 1], group).synced;
      if (was_synced && !entry_of(table.rows[row], group).synced) return row;
    }
  }
  return 0;
}

/// The table with some of its rows: evenly, and the first difference instead of a row next to it.
Table with_fewer_rows(const Table& table, std::size_t most) {
  std::vector<std::size_t> shown = thinned(table.rows.size(), most);
  const std::size_t first = first_difference(table);
  const auto after = std::upper_bound(shown.begin(), shown.end(), first);
  if (first > 0 && shown.size() > 1 && *std::prev(after) != first) {
    *(std::prev(after) == shown.begin() ? after : std::prev(after)) = first;
  }
  Table fewer = table;
  fewer.rows.clear();
  for (const std::size_t i : shown) fewer.rows.push_back(table.rows[i]);
  return fewer;
}

std::string rows_of(const Table& table, std::size_t width) {
  if (table.spec.quantity == Quantity::norm) return norm_rows_text(table);
  const Column step = column(table, kStepWidth, "step",
                             [&](const Table::Row& row) { return step_text(table, row); });
  std::vector<Columns> groups;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    groups.push_back(columns_of(table, group));
  }
  std::string text;
  for (const auto& fitting : stacked(step, groups, width)) text += rows_text(step, fitting);
  return text;
}

/// Columns by which the lines of a folded text are indented.
constexpr std::size_t kHanging = 2;

}  // namespace

std::string table_text(const Table& table, const TableLayout& layout) {
  return folded(plain(table.spec.title) + ":", layout.width, kHanging) +
         untitled_table_text(table, layout);
}

std::string untitled_table_text(const Table& table, const TableLayout& layout) {
  std::string text;
  const std::size_t rows = table.rows.size();
  if (rows <= layout.most_rows) {
    text += rows_of(table, layout.width);
  } else {
    text += rows_of(with_fewer_rows(table, layout.most_rows), layout.width) +
            fmt::format("{} of {} steps; -vv shows all\n", layout.most_rows, rows);
  }
  if (layout.has_sparklines) text += table_sparklines(table, layout.width);
  return text + folded(footnotes(table), layout.width, kHanging);
}

}  // namespace lockstep
