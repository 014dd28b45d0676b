#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/gpu/tensor_task.h"
#include "harness/record/component_sums.h"
#include "harness/record/digest.h"
#include "harness/record/observation.h"

namespace lockstep::gpu {

/// A part whose elements lie at `data` of a GPU's memory, row-major without gaps. Empty if the
/// kernel does not measure it: its runs do not lie at equal distances. Requires: a known dtype.
std::optional<TensorTask> task_of(const ObservedTensor& part, std::uint64_t data);

/// Teams of one launch, at most: they bound the memory for partial sums.
inline constexpr std::uint32_t kMostTeams = 8192;

/// The work of one launch. Which team adds which components depends on the parts alone, so all GPUs
/// and all ways to launch give the same bits.
struct LaunchPlan {
  std::vector<TensorTask> tasks;
  std::vector<std::uint32_t> tasks_of_teams;  ///< the number of the task, for each team
};

/// Takes from the front of `tasks` as many as fit into one launch. Requires: there is one.
LaunchPlan take_launch(std::span<const TensorTask>& tasks);

/// A result as a pass on the CPU has it. The squares of its floating components were added in
/// another order than there, so their sum may differ by rounding, as may the lanes of the sketch;
/// all else is equal.
struct MeasuredSums {
  Digest digest;
  ComponentSums sums;
};
MeasuredSums measured_sums(DType component, const TensorSums& sums);

}  // namespace lockstep::gpu
