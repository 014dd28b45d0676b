#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace lockstep {

/// "412 MiB": memory of processes, of which less does not matter.
inline std::string in_mebibytes(std::int64_t bytes) {
  return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace lockstep
