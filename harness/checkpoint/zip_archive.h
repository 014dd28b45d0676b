#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "reports/base/regular_file.h"

namespace lockstep {

/// Bytes of a file.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

/// A zip archive with members that are stored as they are, as torch.save writes them.
class ZipArchive {
 public:
  /// The archive is `range` of `file`; `path` is for errors. Throws Error (usage) for another kind
  /// of file, a damaged one, and a compressed or encrypted member.
  ZipArchive(const RegularFile& file, std::string path, const ByteRange& range);

  /// The bytes of the member "x/data.pkl" by the name "data.pkl": torch puts all members into one
  /// folder, however it is called. Throws Error (usage) if there is none.
  ByteRange member(const std::string& name) const;

  bool has(const std::string& name) const { return members_.contains(name); }

 private:
  std::string path_;
  std::map<std::string, ByteRange> members_;
};

}  // namespace lockstep
