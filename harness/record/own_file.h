#pragma once

#include <sys/types.h>

namespace lockstep {

/// An open file in the process of a job. The job may close any descriptor, and a file that it opens
/// then gets the number; so its number is high, and each use is preceded by the question whether it
/// still is this file's.
class OwnFile {
 public:
  OwnFile() = default;

  /// Takes a descriptor over, and moves it to a high number if there is one; -1 is none.
  explicit OwnFile(int fd);
  OwnFile(OwnFile&& other) noexcept;
  OwnFile& operator=(OwnFile&& other) noexcept;

  /// Closes the file, unless the number belongs to another one by now.
  ~OwnFile();

  bool valid() const { return fd_ >= 0; }

  /// Whether the descriptor still is that of the file. Sets errno to EBADF if not.
  bool is_own() const;

  /// Requires: `is_own()`, just before.
  int get() const { return fd_; }

 private:
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace lockstep
