#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>

namespace lockstep {

/// A resource that the machine denies to ranks, and its remedy.
struct MachineFault {
  std::string problem;  ///< "16 open files are too few for 2 ranks; they need 24"
  std::string remedy;   ///< "ulimit -n 24"
};

/// Open files of the process with the most. The store has one connection per rank. A rank has one
/// or two Gloo connections to each other rank, plus the files of every process. Enough for 2 to 64
/// ranks.
rlim_t files_needed(int ranks);

/// Whether the processes and threads of `ranks` ranks can be created. Requires: this process has
/// one thread.
bool has_room_for(int ranks);

/// Why `ranks` ranks cannot be started here or cannot connect; empty if they can. Checks the limit
/// of open files, creates as many threads in a child as they have, and connects to itself on
/// 127.0.0.1. Requires: this process has one thread.
std::optional<MachineFault> find_machine_fault(int ranks);

/// Throws Error (machine) for such a fault. Zero ranks need nothing.
void check_machine(int ranks);

}  // namespace lockstep
