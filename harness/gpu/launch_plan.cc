#include "harness/gpu/launch_plan.h"

#include <algorithm>
#include <utility>

#include "harness/gpu/team.h"
#include "harness/record/shard_runs.h"

namespace lockstep::gpu {
namespace {

constexpr std::uint32_t kMostTeamsOfTask = 1024;
constexpr std::uint64_t kTurns = 2;  // at least, of large parts: they spread the cost of a team

constexpr std::uint64_t divided_up(std::uint64_t number, std::uint64_t by) {
  return (number + by - 1) / by;
}

void assign_teams(TensorTask& task) {
  const std::uint64_t tiles = divided_up(task.runs * task.blocks, kThreads);
  const std::uint64_t turns = std::max(kTurns, divided_up(tiles, kMostTeamsOfTask));
  task.turns = static_cast<std::uint32_t>(std::min(turns, std::max<std::uint64_t>(tiles, 1)));
  task.teams = static_cast<std::uint32_t>(std::max<std::uint64_t>(divided_up(tiles, turns), 1));
}

}  // namespace

std::optional<TensorTask> task_of(const ObservedTensor& part, std::uint64_t data) {
  const auto runs = regular_runs_of(part);
  if (!runs) return std::nullopt;
  const DType dtype = *parse<DType>(part.dtype);
  const auto components_of = [&](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * components(dtype);
  };
  TensorTask task;
  task.data = data;
  task.begin = components_of(runs->first.begin);
  task.length = components_of(runs->first.length);
  task.stride = components_of(runs->stride);
  task.runs = static_cast<std::uint64_t>(runs->count);
  task.component = component_type(dtype);
  // A run that begins at the end of a block touches one more than its length says.
  const bool may_begin_anywhere = task.runs > 1 && task.stride % kBlock != 0;
  const std::uint64_t latest = may_begin_anywhere ? kBlock - 1 : task.begin % kBlock;
  task.blocks = std::max<std::uint64_t>(divided_up(latest + task.length, kBlock), 1);
  assign_teams(task);
  return task;
}

LaunchPlan take_launch(std::span<const TensorTask>& tasks) {
  LaunchPlan plan;
  std::uint32_t teams = 0;
  while (!tasks.empty() && (teams == 0 || teams + tasks.front().teams <= kMostTeams)) {
    TensorTask task = tasks.front();
    task.first_team = teams;
    teams += task.teams;
    plan.tasks_of_teams.resize(teams, static_cast<std::uint32_t>(plan.tasks.size()));
    plan.tasks.push_back(task);
    tasks = tasks.subspan(1);
  }
  return plan;
}

MeasuredSums measured_sums(DType component, const TensorSums& found) {
  const Totals& totals = found.totals;
  MeasuredSums measured{{totals.low, totals.high}, {}};
  ComponentSums& sums = measured.sums;
  sums.non_finite = static_cast<std::int64_t>(totals.non_finite);
  std::copy_n(found.lanes[0], sums.lanes.size(), sums.lanes.begin());
  if (has_whole_values(component)) {
    sums.least_whole = totals.whole.least;
    sums.most_whole = totals.whole.most;
    sums.whole_squares = totals.whole.squares;
  } else {
    sums.squares[0] = totals.floating.squares;
    sums.least = totals.floating.least;
    sums.most = totals.floating.most;
  }
  return measured;
}

}  // namespace lockstep::gpu
