#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

// What of the machine this process may use: what the machine has, or what the control groups
// (version 2) that this process is in leave of it.

/// Cores, at least 1. A share of a core counts as one.
int usable_cores();

/// Bytes that processes may still take; nothing where that is not known.
std::optional<std::uint64_t> free_memory();

}  // namespace lockstep
