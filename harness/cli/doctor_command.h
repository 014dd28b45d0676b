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

/// The same command, implemented by `body`. Its arguments are the limit, and whether another
/// program has already reported on the machine.
Command doctor_command(std::function<ExitStatus(std::chrono::milliseconds, bool)> body);

/// The option of the catalogue with which `lockstep` asks for its part.
inline constexpr const char* kRanksOnly = "--ranks-only";

}  // namespace lockstep
