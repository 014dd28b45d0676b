#include "harness/run/jobs.h"

#include <algorithm>
#include <cstdint>

#include "harness/launch/machine.h"
#include "harness/launch/resources.h"

namespace lockstep {

namespace {

/// More than a rank's private memory in any scenario without a GPU (about 10 MiB): the rest is
/// shared between ranks.
constexpr std::uint64_t kMemoryOfRank = std::uint64_t{128} << 20;

/// For the cell with the most. A reference has the same number in every world.
int processes_of(const std::vector<PlannedCell>& cells) {
  return std::max(most_ranks(cells), 1 + kPerturbedReferences);
}

bool fits_memory(int jobs, int processes) {
  const auto memory = free_memory();
  return !memory ||
         static_cast<std::uint64_t>(jobs) * static_cast<std::uint64_t>(processes) * kMemoryOfRank <=
             *memory;
}

}  // namespace

int most_ranks(const std::vector<PlannedCell>& cells) {
  int most = 0;
  for (const PlannedCell& planned : cells) {
    const bool is_run = planned.expectation.not_applicable.empty();
    if (is_run) most = std::max(most, planned.cell.world_size);
  }
  return most;
}

int default_jobs(const std::vector<PlannedCell>& cells) {
  const int ranks = most_ranks(cells);
  if (ranks == 0) return 1;
  int jobs = std::clamp(4 * usable_cores() / ranks, 2, kMostJobs);
  while (jobs > 1 && !fits_memory(jobs, processes_of(cells))) --jobs;
  while (jobs > 1 && !has_room_for(jobs * processes_of(cells))) jobs /= 2;
  return jobs;
}

}  // namespace lockstep
