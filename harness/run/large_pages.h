#pragma once

namespace lockstep {

/// Moves the heap of this process into large pages, if the kernel has them. A fork copies an entry
/// for each page: torch's tables alone fill more than ten thousand small ones.
void move_heap_to_large_pages();

}  // namespace lockstep
