#include "harness/record/process_identity.h"

#include <fmt/format.h>

#include "harness/record/collective_log.h"
#include "reports/base/csv_text.h"

namespace lockstep {
namespace {

std::string part_of(Role role, int process) {
  if (role != Role::reference) return fmt::format("rank {}", process);
  return process == 0 ? "the reference" : fmt::format("perturbed reference {}", process);
}

}  // namespace

std::string process_identity(const Cell& cell, int process) {
  Cell named = cell;
  for (AxisValue& chosen : named.axes) chosen.is_default = false;  // which names all of them
  // What an axis holds is somebody else's text, and a line must stay one.
  return fmt::format("{} of {} with seed {} and {} steps", part_of(cell.role, process),
                     csv_cell(folder_of(named)), cell.seed, cell.steps)
      .substr(0, kLongestProcessIdentity);
}

}  // namespace lockstep
