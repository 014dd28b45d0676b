#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "reports/base/error.h"

namespace lockstep {

/// Size in bytes of the header of a binary file: `magic`, which ends in a newline, the process that
/// wrote it, a newline, zeros.
inline constexpr std::size_t kFileHeaderSize = 512;

inline std::string file_header(std::string_view magic, std::string_view identity) {
  std::string header(magic);
  header.append(identity).append("\n");
  header.resize(kFileHeaderSize);
  return header;
}

/// The writer named by the header at the front of `text`. Throws Error (usage), which expects the
/// header of `what`, if it is another one.
inline std::string identity_in_header(std::string_view text, std::string_view magic,
                                      const std::filesystem::path& path, std::string_view what) {
  const std::string_view header = text.substr(0, kFileHeaderSize);
  const std::size_t end = header.find('\n', magic.size());
  if (header.size() < kFileHeaderSize || !header.starts_with(magic) || end == header.npos) {
    throw malformed(path.string(), 0, 0, std::string("the header of ").append(what),
                    header.substr(0, 32));
  }
  return std::string(header.substr(magic.size(), end - magic.size()));
}

}  // namespace lockstep
