#pragma once

#include <c10/core/Allocator.h>

namespace lockstep::sim {

/// Allocates CPU memory marked as pinned: DDP stores its map of used parameters there. Not charged
/// to any device. Thread-safe.
c10::Allocator* pinned_allocator();

/// Whether a live allocation of `pinned_allocator` begins at `data`.
bool is_pinned(const void* data);

}  // namespace lockstep::sim
