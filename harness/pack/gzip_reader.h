#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

struct z_stream_s;

namespace lockstep {

/// Content that a pack of so many bytes may have. Without a limit, one of 1 MiB could fill a disk.
constexpr std::uint64_t most_content(std::uint64_t compressed) {
  constexpr std::uint64_t kMostRatio = 64;
  return kMostRatio * compressed + kMebibyte;
}

/// How much content is read.
///   limited   as much as `most_content` says
///   all       whatever there is
enum class GzipContent { limited, all };

/// Reads the content of a file that gzip has compressed, from its beginning to its end.
class GzipReader {
 public:
  /// Throws Error (usage) unless the file is a regular one that begins as gzip's do.
  explicit GzipReader(const std::filesystem::path& path,
                      GzipContent content = GzipContent::limited);

  /// The next bytes; empty at the end, whose checksum and length were then compared with the
  /// content. Valid until the next call. Throws Error (usage) if the file is damaged or cut off, if
  /// bytes follow its end, and if there is more content than is read.
  std::string_view next();

  /// That are read of the content.
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  struct Closer {
    void operator()(z_stream_s* stream) const;
  };
  void fill();
  void inflate_more();
  [[noreturn]] void refuse(const std::string& why) const;

  std::string path_;
  RegularFile file_;
  std::uint64_t most_bytes_;
  std::uint64_t read_ = 0;  ///< bytes of the file
  std::uint64_t bytes_ = 0;
  bool is_at_end_ = false;
  std::string compressed_, content_;
  std::unique_ptr<z_stream_s, Closer> stream_;
};

/// Compresses a file again, less: its content takes at most 8 times as many bytes. Throws Error
/// (usage) when the disk is full.
void compress_less(const std::filesystem::path& path);

}  // namespace lockstep
