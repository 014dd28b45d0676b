#pragma once

#include <string>

namespace lockstep {

/// "512 B", "1.5 MiB".
std::string bytes_in_words(double count);

}  // namespace lockstep
