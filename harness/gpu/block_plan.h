#pragma once

#include <cstdint>

#include "harness/gpu/component.h"
#include "harness/gpu/tensor_task.h"
#include "harness/record/component_sums.h"

namespace lockstep::gpu {

inline constexpr std::uint32_t kBlock = ComponentSums::kLanes;  // components

/// Where the components of a block of 64 lie, and where they go in a sketch.
struct BlockPlan {
  std::uint64_t data;    ///< address of the block's first component, even if the part begins later
  std::uint64_t number;  ///< of the block in the global tensor
  std::uint64_t signs;   ///< see `SketchBlock`
  std::uint32_t lane;
  std::uint8_t first;  ///< the components that belong to the part, up to `last`; none if equal
  std::uint8_t last;
  bool is_plain;  ///< all belong to it, and pairs of them may be loaded at once
};

/// Of the block `number` of a part, whose components have `size` bytes. A block is divided if a run
/// ends in it. Blocks that a run does not touch, and those after the last one, are empty.
LOCKSTEP_BOTH inline BlockPlan plan_of(const TensorTask& task, std::uint32_t size,
                                       std::uint64_t number) {
  const std::uint64_t run = task.runs == 1 ? 0 : number / task.blocks;
  const std::uint64_t block_of_run = number - run * task.blocks;
  BlockPlan plan = {};
  if (run >= task.runs || block_of_run >= task.blocks) return plan;
  const std::uint64_t begin = task.begin + run * task.stride;
  const std::uint64_t end = begin + task.length;
  plan.number = begin / kBlock + block_of_run;
  const std::uint64_t first = plan.number * kBlock;
  if (first >= end) return plan;
  plan.first = static_cast<std::uint8_t>(begin > first ? begin - first : 0);
  plan.last = static_cast<std::uint8_t>(end - first < kBlock ? end - first : kBlock);
  plan.data = task.data + (run * task.length + first - begin) * size;
  plan.is_plain = plan.first == 0 && plan.last == kBlock && plan.data % (2 * size) == 0;
  if (task.is_sketched != 0) {
    const SketchBlock sketch = sketch_block(plan.number);
    plan.signs = sketch.signs;
    plan.lane = static_cast<std::uint32_t>(sketch.lane);
  }
  return plan;
}

}  // namespace lockstep::gpu
