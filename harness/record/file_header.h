#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

/// A kind of file that names its version at its front.
struct FileKind {
  std::string_view what;   ///< for people: "a step index"
  std::string_view begin;  ///< before the version: "lockstep step index "
  std::string_view version;
};

/// Size in bytes of the header of a binary file: its kind's begin, the version, a newline, the
/// process that wrote it, a newline, zeros.
inline constexpr std::size_t kFileHeaderSize = 512;

std::string file_header(const FileKind& kind, std::string_view identity);

/// The writer named by the header at the front of `text`. Throws Error (usage) if it is that of
/// another kind or version.
std::string identity_in_header(std::string_view text, const FileKind& kind,
                               const std::filesystem::path& path);

/// Throws Error (usage) unless the first line of a text file is of that kind and version; the
/// version ends at a comma or with the line. Call it before the columns are read, which depend on
/// it.
void require_version(const std::filesystem::path& path, const FileKind& kind,
                     std::uint64_t most_bytes);

}  // namespace lockstep
