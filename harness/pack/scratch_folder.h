#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "reports/base/error.h"

namespace lockstep {

/// A new folder below that for temporary files, for this user alone. It is removed with its
/// content.
class ScratchFolder {
 public:
  /// Throws Error (usage) if it cannot be made.
  ScratchFolder() {
    std::error_code missing;
    const auto parent = std::filesystem::temp_directory_path(missing);
    std::string name = ((missing ? "/tmp" : parent) / "lockstep-pack-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw unwritable(name, std::strerror(errno));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep
