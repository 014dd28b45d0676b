#pragma once

#include <chrono>
#include <functional>

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep doctor`: reports the state of this machine. Then it asks the catalogue, a separate
/// process, for its own state and whether two ranks can connect. Without a catalogue it reports
/// that this was not tried. The conclusion comes first; in the catalogue's answer an empty line
/// ends it.
Command doctor_command();

/// What is asked of the command.
struct DoctorQuestion {
  std::chrono::milliseconds limit;
  bool is_machine_told = false;     ///< another program has already reported on it
  bool is_one_rank_of_mpi = false;  ///< of the catalogue's own trial
};

/// The same command, implemented by `body`.
Command doctor_command(std::function<ExitStatus(const DoctorQuestion&)> body);

/// The option of the catalogue with which `lockstep` asks for its part.
inline constexpr const char* kRanksOnly = "--ranks-only";
/// The option with which mpirun starts the catalogue's ranks.
inline constexpr const char* kOneRankOfMpi = "--one-rank-of-mpi";

}  // namespace lockstep
