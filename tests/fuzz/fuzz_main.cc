// libFuzzer calls a reader with its inputs: the one that LOCKSTEP_FUZZ_READER names.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/readers.h"

namespace {

const lockstep::FuzzedReader* reader = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* const name = std::getenv("LOCKSTEP_FUZZ_READER");
  reader = lockstep::fuzzed_reader(name ? name : "");
  if (reader) return 0;
  std::puts("LOCKSTEP_FUZZ_READER is to be one of:");
  for (const lockstep::FuzzedReader& one : lockstep::fuzzed_readers()) {
    std::printf("%.*s\n", static_cast<int>(one.name.size()), one.name.data());
  }
  std::exit(64);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::accepts(*reader, {reinterpret_cast<const char*>(data), size});
  return 0;
}
