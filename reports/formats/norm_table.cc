#include "reports/formats/norm_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/base/plain_text.h"
#include "reports/formats/columns.h"
#include "reports/formats/table_cells.h"

namespace lockstep {

namespace {

constexpr std::size_t kStepWidth = 4;
constexpr std::size_t kStepDigits = 3;
constexpr std::size_t kNormsWidth = 22;

/// The name of a kind in the published headings.
std::string_view short_name(Kind kind) {
  switch (kind) {
    case Kind::parameter:
      return "weight";
    case Kind::gradient:
      return "grad";
    case Kind::buffer:
      return "buffer";
    case Kind::loss:
      return "loss";
    case Kind::memory:
      return "memory";
    case Kind::data:
    case Kind::optimizer_state:
    case Kind::random_state:
    case Kind::module_output:
    case Kind::module_gradient:
    case Kind::contribution:
    case Kind::reduction:
    case Kind::used_weight:
    case Kind::held_weight:
      return "data";
    case Kind::update:
      return "update";
  }
  return "";
}

std::string norms_text(const TableSpec& spec, const Table::Entry& entry) {
  if (!entry.is_measured()) return "-";
  std::vector<std::string> norms;
  for (std::size_t rank = 0; rank < std::min(entry.values.size(), kMostShownRanks); ++rank) {
    norms.push_back(value_text(spec, entry, rank));
  }
  if (entry.values.size() > kMostShownRanks) norms.emplace_back("...");
  return fmt::format("[{}]", fmt::join(norms, ", "));
}

std::string drift_text(const Table::Entry& entry) {
  if (!entry.drift || std::isnan(*entry.drift)) return " -";
  return fmt::format(" {:.3e}", *entry.drift);
}

/// The steps end one column before the heading does, as long as they fit.
std::size_t step_digits(const Table& table) {
  std::size_t digits = kStepDigits;
  for (const Table::Row& row : table.rows) digits = std::max(digits, step_text(table, row).size());
  return digits;
}

std::string block_text(const Table& table, std::size_t group) {
  const TableSpec& spec = table.spec;
  const std::string_view kind = short_name(spec.kind);
  const bool shows_drift = has_drift(table);
  std::vector<Column> columns{
      Column("step", kStepWidth, Align::left),
      Column(fmt::format("per-rank {} norm", kind), kNormsWidth, Align::left),
      Column(fmt::format("{}_synced", kind), 0, Align::left)};
  if (shows_drift) columns.emplace_back("weight drift across ranks", 0, Align::left);
  for (const Table::Row& row : table.rows) {
    const Table::Entry entry = entry_of(row, group);
    std::vector<std::string> cells{fmt::format("{:>{}}", step_text(table, row), step_digits(table)),
                                   norms_text(spec, entry), "  " + synced_text(spec, entry)};
    if (shows_drift) cells.push_back(drift_text(entry));
    append_row(columns, cells);
  }
  const std::string& heading = spec.groups[group].heading;
  return (heading.empty() ? "" : plain(heading) + "\n") + side_by_side(columns);
}

}  // namespace

std::string norm_rows_text(const Table& table) {
  std::string text;
  for (std::size_t group = 0; group < table.spec.groups.size(); ++group) {
    text += (group == 0 ? "" : "\n") + block_text(table, group);
  }
  return text;
}

}  // namespace lockstep
