#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>

#include "reports/base/unique_fd.h"

namespace lockstep {

/// Marks the folder of a run as in use, until the object or the process is gone. The system lifts
/// the lock of a killed process, so no mark outlives its run. A program that the process starts
/// does not share it; a forked rank does. A file system without locks leaves the folder unmarked.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    // Waits for processes that test the lock at the same moment.
    if (folder_.valid()) ::flock(folder_.get(), LOCK_EX);
  }

 private:
  UniqueFd folder_;
};

/// Whether a process of this machine has marked the folder as in use. Several may ask at once.
inline bool is_locked(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace lockstep
