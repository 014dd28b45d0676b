#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/record/component_sums.h"
#include "harness/record/dtype.h"

namespace lockstep::gpu {

/// A part of a tensor in the memory of a GPU, as the kernel reads it: runs of consecutive
/// components at equal distances in the global tensor, which lie row-major without gaps.
struct TensorTask {
  std::uint64_t data = 0;    ///< address of the first component
  std::uint64_t begin = 0;   ///< the first component in the global tensor
  std::uint64_t length = 0;  ///< components of a run
  std::uint64_t stride = 0;  ///< from the beginning of a run to that of the next
  std::uint64_t runs = 0;
  DType component = DType::float32;
  std::uint64_t blocks = 0;      ///< of 64 components, that a run may touch
  std::uint32_t first_team = 0;  ///< see `LaunchPlan`
  std::uint32_t teams = 0;
  std::uint32_t turns = 0;  ///< of each team
};

/// Of the components of a floating type that are finite.
struct FloatingTotals {
  double squares;
  double least;
  double most;
};

/// Of a type without fraction.
struct WholeTotals {
  WholeSquares squares;
  std::int64_t least;
  std::int64_t most;
};

/// Sums over components: those of a thread, of a team, of a part.
struct Totals {
  std::uint64_t low;  ///< digest
  std::uint64_t high;
  std::uint64_t non_finite;
  union {
    FloatingTotals floating;
    WholeTotals whole;
  };
};

/// The result for a part.
struct TensorSums {
  Totals totals;
  double lanes[ComponentSums::kSketches][ComponentSums::kLanes];  ///< zeros of whole numbers
};

/// Arrays in the memory of the GPU.
struct Launch {
  const TensorTask* tasks;
  const std::uint32_t* tasks_of_teams;  ///< the number of its task, for each team
  std::uint32_t* finished;              ///< teams that have finished, for each task: at first 0
  TensorSums* partials;                 ///< for each team
  TensorSums* results;                  ///< for each task
};

}  // namespace lockstep::gpu
