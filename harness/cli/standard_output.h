#pragma once

#include <string>

namespace lockstep {

/// Writes to standard output. Throws Error (usage) if that fails, e.g. on a full disk.
void write_standard_output(const std::string& text);

}  // namespace lockstep
