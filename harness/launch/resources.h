#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

// Resources available to this process: the machine's, or the share allowed by its control groups
// (version 2).

/// Cores, at least 1. A fraction of a core counts as one.
int usable_cores();

/// Bytes that processes may still allocate; empty if unknown.
std::optional<std::uint64_t> free_memory();

}  // namespace lockstep
