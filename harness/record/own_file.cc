#include "harness/record/own_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lockstep {

namespace {

/// Jobs that close "all" descriptors close those below 1024, or as many as the limit says.
constexpr rlim_t kHigh = 4096;

/// The same file at a high number. Where the limit leaves no room it keeps its own.
int moved_up(int fd) {
  rlimit limit = {};
  if (fd < 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return fd;
  const auto first = static_cast<int>(std::min(limit.rlim_cur, 2 * kHigh) / 2);
  if (fd >= first) return fd;
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, first);
  if (high < 0) return fd;
  ::close(fd);
  return high;
}

}  // namespace

OwnFile::OwnFile(int fd) : fd_(moved_up(fd)) {
  struct stat status = {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) return;
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

OwnFile::OwnFile(OwnFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), device_(other.device_), inode_(other.inode_) {}

OwnFile& OwnFile::operator=(OwnFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  return *this;
}

OwnFile::~OwnFile() {
  if (fd_ >= 0 && is_own()) ::close(fd_);
}

bool OwnFile::is_own() const {
  struct stat status = {};
  const bool is_same =
      ::fstat(fd_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  if (!is_same) errno = EBADF;
  return is_same;
}

}  // namespace lockstep
