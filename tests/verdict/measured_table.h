#pragma once

#include <deque>
#include <vector>

#include "harness/verdict/table.h"

namespace lockstep {

/// The table of these cells; `evidence` has one entry per group, null for one that was not run.
inline Table measured_table(const TableSpec& spec, const std::vector<const StepReader*>& evidence) {
  std::deque<TableColumn> measured;
  std::vector<const TableColumn*> columns;
  for (const StepReader* const group : evidence) {
    columns.push_back(nullptr);
    if (!group) continue;
    columns.back() = &measured.emplace_back(spec, group->processes());
    fold_steps(*group, {measured.back()});
  }
  return table_of(spec, columns);
}

}  // namespace lockstep
