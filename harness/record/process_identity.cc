#include "harness/record/process_identity.h"

#include <fmt/format.h>

#include "harness/record/collective_log.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {
namespace {

std::string part_of(Role role, int process) {
  if (role != Role::reference) return fmt::format("rank {}", process);
  return process == 0 ? "the reference" : fmt::format("perturbed reference {}", process);
}

std::string identity_of(const std::string& part, const std::string& execution) {
  const std::string whole = fmt::format("{} of {}", part, execution);
  std::size_t end = 0;  // after a whole character
  while (end < whole.size()) {
    const std::size_t next = end + character_length(whole, end);
    if (next > kLongestProcessIdentity) break;
    end = next;
  }
  return whole.substr(0, end);
}

}  // namespace

void require_process(const std::filesystem::path& file, const std::string& expected,
                     const std::string& found) {
  if (found != expected) throw malformed(file.string(), 0, 0, "a file of " + expected, found);
}

std::string execution_identity(const Cell& cell) {
  Cell named = cell;
  for (AxisValue& chosen : named.axes)
    chosen.is_default = false;  // so that the folder names all
                                // of them
  // Axis values are foreign text, and the identity must stay one line.
  return fmt::format("{} with seed {} and {} steps", csv_cell(folder_of(named)), cell.seed,
                     cell.steps);
}

std::string execution_identity(const JobRecord& job) {
  return fmt::format("job {}", csv_cell(job.id));
}

std::string process_identity(const Cell& cell, int process) {
  return identity_of(part_of(cell.role, process), execution_identity(cell));
}

std::string execution_identity(const JobPart& part) {
  return fmt::format("job {}", csv_cell(part.id));
}

std::string process_identity(const JobRecord& job, int process) {
  const JobPart* const part = part_with(job, process);
  return identity_of(fmt::format("rank {}", process),
                     part ? execution_identity(*part) : execution_identity(job));
}

}  // namespace lockstep
