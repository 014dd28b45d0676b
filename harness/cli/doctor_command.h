#pragma once

#include <chrono>
#include <functional>

#include "harness/cli/command.h"

namespace lockstep {

/// `lockstep doctor`: says what this machine has, and then asks the catalogue, a process of its
/// own, what it has and whether two ranks can meet. Without a catalogue it says that nobody tried
/// that. Its conclusion stands first, as in the catalogue's answer, where an empty line ends it.
Command doctor_command();

/// The same command of a program that does its part in `body`. `body` is called with the limit, and
/// with whether another program has spoken of the machine already.
Command doctor_command(std::function<ExitStatus(std::chrono::milliseconds, bool)> body);

/// The option with which `lockstep` asks a catalogue for its part.
inline constexpr const char* kRanksOnly = "--ranks-only";

}  // namespace lockstep
