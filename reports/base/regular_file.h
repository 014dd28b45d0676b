#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// A file that is open for reading. Only regular files are, and links to them: a named pipe would
/// never end, and a device may have no end. One thread at a time.
class RegularFile {
 public:
  /// Throws Error (usage) when the file cannot be opened, is not regular, or is larger than
  /// `most_bytes`, a constant of file_limits.h.
  RegularFile(const std::filesystem::path& path, std::uint64_t most_bytes);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  /// In bytes, when it was opened.
  std::uint64_t size() const { return size_; }

  /// The `count` bytes from `offset` on. Requires: they lie within `size()`. Throws Error (usage)
  /// when they cannot be read, or are there no longer.
  std::string read(std::uint64_t offset, std::uint64_t count) const;

 private:
  std::string path_;
  int fd_;
  std::uint64_t size_ = 0;
};

/// The bytes of the file at `path`. Throws Error (usage) as `RegularFile` does.
std::string read_text(const std::filesystem::path& path, std::uint64_t most_bytes);

}  // namespace lockstep
