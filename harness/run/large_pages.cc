#include "harness/run/large_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep {

namespace {

constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, since Linux 6.1; headers may be older

struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Empty if there is none.
AddressRange heap() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with("[heap]")) continue;
    AddressRange range;
    char dash = 0;
    std::istringstream(line) >> std::hex >> range.begin >> dash >> range.end;
    return range;
  }
  return {};
}

}  // namespace

void move_heap_to_large_pages() {
  const AddressRange range = heap();
  const std::uintptr_t begin = (range.begin + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = range.end / kLargePage * kLargePage;
  // If the kernel cannot, the pages stay as they are.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, kCollapse);
}

}  // namespace lockstep
