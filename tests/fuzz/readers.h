#pragma once

#include <span>
#include <string_view>

namespace lockstep {

/// A reader of one kind of file that comes from outside: of another machine, another version or
/// anyone's hand.
struct FuzzedReader {
  std::string_view name;
  /// Gives the bytes to the reader, as a file if it reads files. Throws what the reader throws.
  void (*read)(std::string_view bytes);
};

/// All of them, by name.
std::span<const FuzzedReader> fuzzed_readers();

/// The one with this name; null: there is none.
const FuzzedReader* fuzzed_reader(std::string_view name);

/// Whether the reader accepts the bytes; false if it refuses them with an Error. Everything else
/// that it throws is a defect, and is passed on.
bool accepts(const FuzzedReader& reader, std::string_view bytes);

}  // namespace lockstep
