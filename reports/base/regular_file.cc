#include "reports/base/regular_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "reports/base/error.h"

namespace lockstep {
namespace {

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

RegularFile::RegularFile(const std::filesystem::path& path, std::uint64_t most_bytes)
    // Nonblocking, because a pipe would wait for a writer.
    : path_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  const bool is_open = fd_ >= 0 && ::fstat(fd_, &status) == 0;
  size_ = static_cast<std::uint64_t>(status.st_size);
  std::string why;
  if (!is_open) {
    why = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    why = fmt::format("it is {}, and only regular files are read", kind_of(status.st_mode));
  } else if (size_ > most_bytes) {
    why = fmt::format("it has {} bytes, and such a file has {} at most", size_, most_bytes);
  }
  if (why.empty()) return;
  if (fd_ >= 0) ::close(fd_);
  throw unreadable(path_, why);
}

RegularFile::~RegularFile() { ::close(fd_); }

std::string RegularFile::read(std::uint64_t offset, std::uint64_t count) const {
  std::string bytes(count, '\0');
  std::uint64_t done = 0;
  while (done < count) {
    const ssize_t more =
        ::pread(fd_, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) throw unreadable(path_, std::strerror(errno));
    if (more == 0) throw unreadable(path_, "it became shorter while it was read");
    done += static_cast<std::uint64_t>(more);
  }
  return bytes;
}

std::string read_text(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const RegularFile file(path, most_bytes);
  return file.read(0, file.size());
}

}  // namespace lockstep
