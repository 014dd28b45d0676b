#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// A regular file, or a link to one, opened for reading. Others are rejected: a named pipe would
/// never end, and a device may have no end. One thread at a time.
class RegularFile {
 public:
  /// Throws Error (usage) when the file cannot be opened, is not regular, or exceeds `most_bytes`,
  /// a constant of file_limits.h.
  RegularFile(const std::filesystem::path& path, std::uint64_t most_bytes);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  /// In bytes, at the time of opening.
  std::uint64_t size() const { return size_; }

  /// The `count` bytes from `offset` on. Requires: they lie within `size()`. Throws Error (usage)
  /// when they cannot be read or no longer exist.
  std::string read(std::uint64_t offset, std::uint64_t count) const;

 private:
  std::string path_;
  int fd_;
  std::uint64_t size_ = 0;
};

/// The content of the file at `path`. Throws Error (usage) like `RegularFile`.
std::string read_text(const std::filesystem::path& path, std::uint64_t most_bytes);

}  // namespace lockstep
