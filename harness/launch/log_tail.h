#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// The last 20 lines of a rank's log, as they are, but at most 4 KiB; a line is cut only where it
/// alone is longer. The stack frames that torch prints below an error ("frame #3: ...") are left
/// out: twenty of them would hide the error's own sentence. Empty where the file cannot be read.
std::string log_tail(const std::filesystem::path& file);

}  // namespace lockstep
