#pragma once

#include <filesystem>

namespace lockstep {

/// A new folder below that for temporary files, for this user alone. It is removed with its
/// content: with this object, and before SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE or SIGXCPU ends
/// the process, unless the process handles that signal itself. One thread at a time.
class ScratchFolder {
 public:
  /// Throws Error (usage) if it cannot be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep
