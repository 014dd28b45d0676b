#pragma once

#include <cstdint>

#include "harness/gpu/component.h"
#include "harness/gpu/tensor_task.h"
#include "harness/record/component_sums.h"
#include "harness/record/digest.h"

namespace lockstep::gpu {

inline constexpr std::uint32_t kBlock = ComponentSums::kLanes;  // components

/// Where the components of a block of 64 lie, and where they go in the sketches and in a digest.
struct BlockPlan {
  std::uint64_t data;     ///< address of the block's first component, even if the part begins later
  std::uint64_t low_key;  ///< of the block of the digest that it lies in
  std::uint64_t high_key;
  std::uint32_t signs[2];   ///< see `SketchBlock`: the lower half, then the upper one
  std::uint16_t first_key;  ///< place of its first word in the block of the digest
  std::uint8_t lanes[2];    ///< of both sketches: `lane` and `second_lane`
  bool is_second_negative;
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
  const std::uint64_t block = begin / kBlock + block_of_run;  // of the global tensor
  const std::uint64_t first = block * kBlock;
  if (first >= end) return plan;
  plan.first = static_cast<std::uint8_t>(begin > first ? begin - first : 0);
  plan.last = static_cast<std::uint8_t>(end - first < kBlock ? end - first : kBlock);
  plan.data = task.data + (run * task.length + first - begin) * size;
  plan.is_plain =
      plan.first == 0 && plan.last == kBlock && plan.data % (std::uint64_t{2} * size) == 0;
  const std::uint64_t word = first * size / 4;
  const Digest keys = block_keys(word / kDigestBlock);
  plan.low_key = keys.low;
  plan.high_key = keys.high;
  plan.first_key = static_cast<std::uint16_t>(word % kDigestBlock);
  const SketchBlock sketch = sketch_block(block);
  plan.signs[0] = static_cast<std::uint32_t>(sketch.signs);
  plan.signs[1] = static_cast<std::uint32_t>(sketch.signs >> 32);
  plan.lanes[0] = static_cast<std::uint8_t>(sketch.lane);
  plan.lanes[1] = static_cast<std::uint8_t>(sketch.second_lane);
  plan.is_second_negative = sketch.is_second_negative;
  return plan;
}

}  // namespace lockstep::gpu
