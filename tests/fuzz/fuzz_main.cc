// libFuzzer calls a reader with its inputs: the one that LOCKSTEP_FUZZ_READER names.

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include "tests/fuzz/readers.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

const lockstep::FuzzedReader* reader = nullptr;

/// Numbers at the ends of their types, and words in the place of numbers.
constexpr std::array<std::string_view, 14> kNumbers{"9223372036854775807",
                                                    "-9223372036854775808",
                                                    "9223372036854775808",
                                                    "18446744073709551615",
                                                    "2147483647",
                                                    "-2147483648",
                                                    "4294967296",
                                                    "1e300",
                                                    "-1e300",
                                                    "1e999",
                                                    "-1",
                                                    "0",
                                                    "nan",
                                                    "\"\""};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Replaces a number of a text. A single byte rarely makes a number that is out of range.
void replace_number(std::string& text, std::minstd_rand& random) {
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(random() % text.size());
  const auto first = std::find_if(from, text.end(), is_digit);
  const auto last = std::find_if_not(first, text.end(), is_digit);
  if (first != last) text.replace(first, last, kNumbers[random() % kNumbers.size()]);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (size == 0 || random() % 4 != 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(data, data + size);
  replace_number(text, random);
  text.resize(std::min(text.size(), most));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

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
