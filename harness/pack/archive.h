#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reports/base/file_limits.h"
#include "reports/base/unique_fd.h"

struct archive;

namespace lockstep {

/// What an archive may hold: a small file can unpack to any size.
struct ArchiveLimits {
  std::uint64_t bytes = 16384 * kMebibyte;  ///< of all members
  std::uint64_t bytes_of_member = kLargestFile;
  std::uint64_t members = 1'000'000;
};

/// Writes a tar archive that gzip has compressed. The same members give the same bytes: it holds no
/// times, users or rights.
class ArchiveWriter {
 public:
  /// Throws Error (usage) when the file exists or cannot be created.
  explicit ArchiveWriter(std::filesystem::path path, const ArchiveLimits& limits = {});
  ~ArchiveWriter();  ///< removes the file if it was not finished
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  /// Adds a text under a name, "run/record.json". Throws Error (usage) when the disk is full or the
  /// limits are exceeded.
  void add_text(const std::string& name, std::string_view text);

  /// Adds a file as long as it is now. Throws Error (usage) if it cannot be read, too.
  void add_file(const std::string& name, const std::filesystem::path& file);

  /// Completes the file; compresses it less if it has more content than `most_content`, which no
  /// reader would take. Throws Error (usage) when the disk is full.
  void finish();

  std::uint64_t bytes() const { return bytes_; }  ///< of all members

 private:
  struct Closer {
    void operator()(archive* handle) const;
  };

  void begin(const std::string& name, std::uint64_t size);
  void write(std::string_view bytes);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path path_;
  ArchiveLimits limits_;
  UniqueFd file_;
  std::uint64_t bytes_ = 0;
  std::uint64_t members_ = 0;
  bool is_finished_ = false;
  std::unique_ptr<archive, Closer> archive_;
};

/// Whether a file of an archive is unpacked, by its path in the folder of the archive.
using IsWanted = std::function<bool(const std::filesystem::path& member)>;

/// Unpacks such an archive, or the wanted files of it, into an empty folder and returns the one
/// folder that all its members lie in. Throws Error (usage) for another kind of file and for a
/// damaged one; for a member that leads out of the folder, lies too deep in it, is there twice, or
/// is neither a file nor a folder; and beyond the limits and `most_content`.
std::filesystem::path unpack(const std::filesystem::path& file, const std::filesystem::path& folder,
                             const ArchiveLimits& limits = {}, const IsWanted& is_wanted = {});

/// The text of a file in the folder of such an archive; empty: there is none. What follows it in
/// the archive is not read. Throws Error (usage) as `unpack` does.
std::optional<std::string> read_member(const std::filesystem::path& file, const std::string& name,
                                       const ArchiveLimits& limits = {});

}  // namespace lockstep
