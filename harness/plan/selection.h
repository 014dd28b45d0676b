#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/record/cell.h"

namespace lockstep {

/// The GPUs of this machine.
struct GpusHere {
  int count = 0;
  std::string why_none;     ///< with the remedy; empty if there are some
  bool are_shared = false;  ///< by nccl ranks, if there are fewer GPUs than ranks
};

/// The request of `run`.
struct Selection {
  std::vector<std::string> names;  ///< "scenario" or "scenario/variant"; empty: all
  std::vector<int> world_sizes{2};
  std::optional<std::int64_t> steps;  ///< absent: the scenario's number
  std::uint64_t seed = 0;
  std::vector<AxisValue> axes;
  Backend backend = Backend::gloo;
  std::optional<DeviceKind> device;  ///< absent: the default of each scenario; nccl: cuda
  std::optional<GpusHere> gpus;      ///< absent: not looked up, since no cell is on cuda
  bool matrix = false;               ///< every value of the axes that are not in `axes`
  /// Limit for one scenario in one world: beyond it, a matrix only covers pairs
  /// of values, and beyond that, values.
  std::size_t max_cells = 1'000;
  int repetitions = 1;
  Collectives collectives = Collectives::log;
};

}  // namespace lockstep
