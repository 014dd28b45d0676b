#include "harness/cli/bytes_in_words.h"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>

namespace lockstep {

std::string bytes_in_words(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto count = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; count >= 1024 && unit + 1 < std::size(kUnits); ++unit) count /= 1024;
  return fmt::format("{:.{}f} {}", count, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace lockstep
