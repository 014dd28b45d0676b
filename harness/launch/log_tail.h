#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// The last 20 lines of a rank's log, at most 4 KiB; a line is cut only if it alone is longer.
/// Stack frames that torch prints below an error ("frame #3: ...") are omitted, because twenty of
/// them would hide the error message. Empty if the file cannot be read.
std::string log_tail(const std::filesystem::path& file);

}  // namespace lockstep
