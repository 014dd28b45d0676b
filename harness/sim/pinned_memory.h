#pragma once

#include <c10/core/Allocator.h>

namespace lockstep::sim {

/// Memory of the CPU's allocator that is known to be pinned: DDP keeps its map of used parameters
/// in such. Charged to no device. Thread-safe.
c10::Allocator* pinned_allocator();

/// Whether an allocation of `pinned_allocator` that still lives begins at `data`.
bool is_pinned(const void* data);

}  // namespace lockstep::sim
