#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "reports/base/error.h"
#include "reports/base/private_files.h"

namespace lockstep {

/// Writes all of `bytes` to `fd`, in one write unless the system takes fewer. Returns false, with
/// errno set, when the system refuses the rest.
inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// A name next to `path` that no other process has, also in a folder that several machines share.
/// It ends in `.tmp`.
std::string temporary_name(const std::filesystem::path& path);

/// Writes a file under a temporary name and renames it. So a file at `path` is complete, even if
/// the writer is killed or another process writes it, too. Throws Error (usage) and then removes
/// the temporary file.
inline void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  const std::string temporary = temporary_name(path);
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode_of_new_file(path));
  if (fd < 0) throw unwritable(path.string(), std::strerror(errno));
  const bool written = write_all(fd, bytes);
  const int write_error = errno;
  const bool closed = ::close(fd) == 0;
  if (written && closed && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int error = written ? errno : write_error;
  ::unlink(temporary.c_str());
  throw unwritable(path.string(), std::strerror(error));
}

}  // namespace lockstep
