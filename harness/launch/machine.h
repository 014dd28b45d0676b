#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>

namespace lockstep {

/// What a machine does not give to ranks, and what helps.
struct MachineFault {
  std::string problem;  ///< "16 open files are too few for 2 ranks; they need 24"
  std::string remedy;   ///< "ulimit -n 24"
};

/// The open files of the process with the most: the store has one connection for each rank, a rank
/// one or two of Gloo for each other, beside what every process has. Enough for 2 to 64 ranks.
rlim_t files_needed(int ranks);

/// Whether the processes and threads of `ranks` ranks can be made. Requires: this process has one
/// thread.
bool has_room_for(int ranks);

/// Why `ranks` ranks cannot be started here, or cannot meet; nothing where they can. Looks at the
/// limit of open files, makes as many threads as they have, in a child, and connects to itself on
/// 127.0.0.1. Requires: this process has one thread.
std::optional<MachineFault> find_machine_fault(int ranks);

/// Throws Error (machine) where there is such a fault. No ranks need nothing.
void check_machine(int ranks);

}  // namespace lockstep
