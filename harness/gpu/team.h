#pragma once

#include <cstdint>

#include "harness/gpu/block_plan.h"
#include "harness/gpu/component.h"
#include "harness/gpu/tensor_task.h"
#include "harness/gpu/thread_sums.h"

/// The program of a team: the threads of one thread block of a GPU. It is written over `Threads`:
/// `each(work)` calls `work(thread, state)` on each thread and waits for all, so code between two
/// calls never reads what another thread is writing. A GPU runs the threads at the same time, the
/// CPU one after the other, and both give the same bits: each order of additions is fixed.
namespace lockstep::gpu {

inline constexpr std::uint32_t kThreads = 256;
inline constexpr std::uint32_t kWarp = 32;  // threads, each of which takes a pair of each block
inline constexpr std::uint32_t kWarps = kThreads / kWarp;
static_assert(2 * kWarp == kBlock);

/// Sums of some threads, and of warps.
struct SharedSums {
  static constexpr std::uint32_t kTotals = kThreads / 4;

  Totals totals[kTotals];
  double lanes[kWarps][ComponentSums::kSketches][kBlock];
};

/// What the threads of a team share.
struct TeamMemory {
  PlaceKey keys[kDigestBlock];
  union {
    BlockPlan plans[kThreads];
    SharedSums sums;  ///< after the last plan
  };
  std::uint32_t is_last;
};

template <class Bits>
LOCKSTEP_BOTH Pair<Bits> load_pair(std::uint64_t address) {
#ifdef __CUDA_ARCH__
  const auto load = [&](auto of) {  // no kernel writes what it measures
    const auto both = __ldg(reinterpret_cast<const decltype(of)*>(address));
    return Pair<Bits>{both.x, both.y};
  };
  if constexpr (sizeof(Bits) == 1) return load(uchar2());
  if constexpr (sizeof(Bits) == 2) return load(ushort2());
  if constexpr (sizeof(Bits) == 4) return load(uint2());
  if constexpr (sizeof(Bits) == 8) return load(ulonglong2());
#else
  return *reinterpret_cast<const Pair<Bits>*>(address);
#endif
}

/// The component `at` of a block, 0 if it does not belong to the part.
template <class Bits>
LOCKSTEP_BOTH Bits load_present(const BlockPlan& plan, std::uint32_t at, bool is_present) {
  if (!is_present) return 0;
  const std::uint64_t address = plan.data + at * sizeof(Bits);
  if (address % sizeof(Bits) == 0) return *reinterpret_cast<const Bits*>(address);
  Bits bits = 0;
  for (std::uint32_t i = 0; i < sizeof(Bits); ++i) {
    const std::uint8_t byte = reinterpret_cast<const std::uint8_t*>(address)[i];
    bits = static_cast<Bits>(bits | static_cast<Bits>(byte) << (8 * i));
  }
  return bits;
}

/// The first component of the pair that goes to the lanes of a thread in a sketch.
LOCKSTEP_BOTH inline std::uint32_t place_in(const BlockPlan& plan, int sketch,
                                            std::uint32_t thread_of_warp) {
  return 2 * (thread_of_warp ^ plan.lanes[sketch] / 2U);
}

/// A pair of a block, of which components may not belong to the part: these are zeros.
template <class Bits>
struct PresentPair {
  bool is_present[2];
  Pair<Bits> pair;

  LOCKSTEP_BOTH PresentPair(const BlockPlan& plan, std::uint32_t at)
      : is_present{at >= plan.first && at < plan.last, at + 1 >= plan.first && at + 1 < plan.last},
        pair{load_present<Bits>(plan, at, is_present[0]),
             load_present<Bits>(plan, at + 1, is_present[1])} {}
};

/// Whether pairs of all these blocks may be loaded at once, and their words have the same keys.
template <std::uint32_t count>
LOCKSTEP_BOTH bool are_alike(const BlockPlan* plans) {
  bool are_plain = true;
  for (std::uint32_t k = 0; k < count; ++k) are_plain &= plans[k].is_plain;
  return are_plain && plans[0].low_key == plans[count - 1].low_key;
}

template <class Component>
LOCKSTEP_BOTH void add_block(const BlockPlan& plan, std::uint32_t thread_of_warp,
                             const PlaceKey* keys, PairSums<Component>& sums) {
  using Bits = typename Component::Bits;
  if (plan.first == plan.last) return;
  const std::uint32_t at = place_in(plan, 0, thread_of_warp);
  const PresentPair<Bits> of_first(plan, at);
  sums.add(plan, at, of_first.pair, of_first.is_present, keys);
  sums.finish_words(plan);
  const std::uint32_t other = place_in(plan, 1, thread_of_warp);
  const PresentPair<Bits> of_second(plan, other);
  sums.add_to_second(plan, other, of_second.pair, of_second.is_present);
}

/// Adds `count` blocks whose pairs may be loaded at once: before they are added. The second pair of
/// a thread is the first one of another thread of its warp, so it comes from a cache.
template <class Component, std::uint32_t count>
LOCKSTEP_BOTH void add_alike(const BlockPlan* plans, std::uint32_t thread_of_warp,
                             const PlaceKey* keys, PairSums<Component>& sums) {
  using Bits = typename Component::Bits;
  Pair<Bits> pairs[count];
  const auto load = [&](int sketch) {
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint32_t at = place_in(plans[k], sketch, thread_of_warp);
      pairs[k] = load_pair<Bits>(plans[k].data + at * sizeof(Bits));
    }
  };
  load(0);
  for (std::uint32_t k = 0; k < count; ++k) {
    sums.add(plans[k], place_in(plans[k], 0, thread_of_warp), pairs[k], {true, true}, keys);
  }
  if constexpr (!PairSums<Component>::kIsWhole) {
    load(1);
    for (std::uint32_t k = 0; k < count; ++k) {
      sums.add_to_second(plans[k], place_in(plans[k], 1, thread_of_warp), pairs[k], {true, true});
    }
  }
  sums.finish_words(plans[0]);
}

/// Adds a pair of each of the blocks of a warp.
template <class Component>
LOCKSTEP_BOTH void add_blocks(const BlockPlan* plans, std::uint32_t thread_of_warp,
                              const PlaceKey* keys, PairSums<Component>& sums) {
  using Bits = typename Component::Bits;
  // Loaded before they are added: as many as registers hold.
  constexpr std::uint32_t kAtOnce = sizeof(Bits) == 8 ? 2 : 4;
  LOCKSTEP_KEEP_LOOP
  for (std::uint32_t b = 0; b < kWarp; b += kAtOnce, plans += kAtOnce) {
    if (are_alike<kAtOnce>(plans)) {
      add_alike<Component, kAtOnce>(plans, thread_of_warp, keys, sums);
      continue;
    }
    LOCKSTEP_KEEP_LOOP
    for (std::uint32_t k = 0; k < kAtOnce; ++k) add_block(plans[k], thread_of_warp, keys, sums);
  }
}

/// The same for any type.
LOCKSTEP_BOTH inline void add_blocks(DType component, const BlockPlan* plans,
                                     std::uint32_t thread_of_warp, const PlaceKey* keys,
                                     ThreadState& state) {
  with_component(component, [&](auto of) {
    PairSums<decltype(of)> sums(state);
    add_blocks(plans, thread_of_warp, keys, sums);
    sums.finish();
  });
}

LOCKSTEP_BOTH inline std::uint32_t size_of(DType component) {
  std::uint32_t size = 0;
  with_component(component, [&](auto of) { size = sizeof(typename decltype(of)::Bits); });
  return size;
}

LOCKSTEP_BOTH inline bool has_whole_values(DType component) {
  bool is_whole = false;
  with_component(component, [&](auto of) { is_whole = PairSums<decltype(of)>::kIsWhole; });
  return is_whole;
}

/// Writes the two lanes of a thread to those of its warp.
LOCKSTEP_BOTH inline void share_lanes(TeamMemory& memory, std::uint32_t thread,
                                      const ThreadState& state) {
  const std::uint32_t lane = thread % kWarp * 2;
  for (std::uint32_t sketch = 0; sketch < ComponentSums::kSketches; ++sketch) {
    double* const lanes = memory.sums.lanes[thread / kWarp][sketch] + lane;
    lanes[0] = state.lanes[sketch][0];
    lanes[1] = state.lanes[sketch][1];
  }
}

/// Writes the sum of all warps to the lane of a thread, if it has one.
LOCKSTEP_BOTH inline void add_up_lane(const TeamMemory& memory, std::uint32_t thread,
                                      TensorSums* sums) {
  if (thread >= ComponentSums::kSketches * kBlock) return;
  const std::uint32_t sketch = thread / kBlock, lane = thread % kBlock;
  double sum = 0;
  for (const auto& lanes : memory.sums.lanes) sum += lanes[sketch][lane];
  sums->lanes[sketch][lane] = sum;
}

/// Adds the totals of the threads from `half` + `first` to those of the threads from `first` to
/// before `end`.
template <class Threads>
LOCKSTEP_BOTH void include_half(Threads& threads, TeamMemory& memory, bool is_whole,
                                std::uint32_t half, std::uint32_t first, std::uint32_t end) {
  threads.each([&](std::uint32_t thread, ThreadState& state) {
    if (thread < half + first || thread >= half + end) return;
    memory.sums.totals[thread - half - first] = state.totals;
  });
  threads.each([&](std::uint32_t thread, ThreadState& state) {
    if (thread < first || thread >= end) return;
    include(state.totals, memory.sums.totals[thread - first], is_whole);
  });
}

/// Writes the sums of totals and lanes of all threads to `sums`.
template <class Threads>
LOCKSTEP_BOTH void add_up(Threads& threads, TeamMemory& memory, bool is_whole, TensorSums* sums) {
  threads.each(
      [&](std::uint32_t thread, ThreadState& state) { share_lanes(memory, thread, state); });
  LOCKSTEP_KEEP_LOOP
  for (std::uint32_t half = kThreads / 2; half > 0; half /= 2) {
    LOCKSTEP_KEEP_LOOP
    for (std::uint32_t first = 0; first < half; first += SharedSums::kTotals) {
      const std::uint32_t end =
          half - first < SharedSums::kTotals ? half : first + SharedSums::kTotals;
      include_half(threads, memory, is_whole, half, first, end);
    }
  }
  threads.each([&](std::uint32_t thread, ThreadState& state) {
    if (thread == 0) sums->totals = state.totals;
    add_up_lane(memory, thread, sums);
    threads.publish();
  });
}

/// Adds up the partial sums of all teams of a task.
template <class Threads>
LOCKSTEP_BOTH void add_up_teams(Threads& threads, TeamMemory& memory, bool is_whole,
                                const TensorSums* partials, std::uint32_t teams, TensorSums* sums) {
  threads.each([&](std::uint32_t thread, ThreadState& state) {
    state = {empty_totals(is_whole), {}};
    LOCKSTEP_KEEP_LOOP
    for (std::uint32_t team = thread; team < teams; team += kThreads) {
      include(state.totals, threads.read(partials[team].totals), is_whole);
    }
    const std::uint32_t lane = thread % kWarp * 2;
    for (std::uint32_t team = thread / kWarp; team < teams; team += kWarps) {
      for (std::uint32_t sketch = 0; sketch < ComponentSums::kSketches; ++sketch) {
        const double* const lanes = partials[team].lanes[sketch] + lane;
        state.lanes[sketch][0] += threads.read(lanes[0]);
        state.lanes[sketch][1] += threads.read(lanes[1]);
      }
    }
  });
  add_up(threads, memory, is_whole, sums);
}

/// The part of the kernel that one team runs. The last team of a task to finish adds up the sums of
/// all.
template <class Threads>
LOCKSTEP_BOTH void run_team(Threads& threads, TeamMemory& memory, const Launch& launch,
                            std::uint32_t team) {
  const std::uint32_t number = launch.tasks_of_teams[team];
  const TensorTask& task = launch.tasks[number];
  const std::uint32_t size = size_of(task.component);
  const bool is_whole = has_whole_values(task.component);
  threads.each([&](std::uint32_t thread, ThreadState& state) {
    state = {empty_totals(is_whole), {}};
    for (std::uint32_t i = thread; i < kDigestBlock; i += kThreads) memory.keys[i] = place_key(i);
  });
  LOCKSTEP_KEEP_LOOP
  for (std::uint32_t turn = 0; turn < task.turns; ++turn) {
    const std::uint64_t tile = std::uint64_t{team - task.first_team} * task.turns + turn;
    threads.each([&](std::uint32_t thread, ThreadState&) {
      memory.plans[thread] = plan_of(task, size, tile * kThreads + thread);
    });
    threads.each([&](std::uint32_t thread, ThreadState& state) {
      add_blocks(task.component, memory.plans + (thread - thread % kWarp), thread % kWarp,
                 memory.keys, state);
    });
  }
  if (task.teams == 1) return add_up(threads, memory, is_whole, launch.results + number);
  add_up(threads, memory, is_whole, launch.partials + team);
  threads.each([&](std::uint32_t thread, ThreadState&) {
    if (thread == 0) memory.is_last = threads.count(launch.finished[number]) == task.teams;
  });
  if (memory.is_last == 0) return;
  add_up_teams(threads, memory, is_whole, launch.partials + task.first_team, task.teams,
               launch.results + number);
}

}  // namespace lockstep::gpu
