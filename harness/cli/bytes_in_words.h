#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// "512 B", "1.5 MiB".
std::string bytes_in_words(std::uint64_t bytes);

}  // namespace lockstep
