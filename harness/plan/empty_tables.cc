#include "harness/plan/empty_tables.h"

#include <algorithm>

namespace lockstep {

namespace {

/// The table of `spec` for `cell`; created without groups for its first cell.
Table& table_for(const Cell& cell, const TableSpec& spec, std::vector<Table>& tables) {
  const auto found = std::find_if(tables.begin(), tables.end(), [&](const Table& table) {
    return table.scenario == cell.scenario && table.world_size == cell.world_size &&
           table.axes == cell.axes && table.spec.title == spec.title;
  });
  if (found != tables.end()) return *found;
  tables.push_back({cell.scenario, cell.world_size, cell.axes, spec, {}});
  tables.back().spec.groups.clear();
  return tables.back();
}

}  // namespace

std::vector<Table> empty_tables_of(const std::vector<PlannedCell>& cells) {
  std::vector<Table> tables;
  for (const PlannedCell& planned : cells) {
    if (!planned.expectation.not_applicable.empty() || planned.cell.repetition > 1) continue;
    for (const TableSpec& spec : planned.scenario->tables) {
      for (const TableSpec::Group& group : spec.groups) {
        if (group.variant == planned.cell.variant) {
          table_for(planned.cell, spec, tables).spec.groups.push_back(group);
        }
      }
    }
  }
  return tables;
}

}  // namespace lockstep
