#pragma once

#include <cstddef>

namespace lockstep {

/// Columns of the terminal that `fd` is: those of COLUMNS where it is set to a number, else those
/// that the terminal says; at least 20. `kConsoleWidth` where `fd` is no terminal.
std::size_t terminal_width(int fd);

}  // namespace lockstep
