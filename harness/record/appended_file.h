#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "harness/record/own_file.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/base/private_files.h"

namespace lockstep {

/// A new file that is written from front to back. Bytes appended by a process that is then killed
/// stay. One thread at a time.
class AppendedFile {
 public:
  /// Creates the file. Throws Error (usage) when it exists or cannot be created.
  explicit AppendedFile(std::filesystem::path path)
      : path_(std::move(path)),
        file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
                     mode_of_new_file(path_))) {
    if (!file_.valid()) throw unwritable(path_.string(), std::strerror(errno));
  }

  /// Appends all bytes in one write, or none. Throws Error (usage) when the disk is full or the
  /// file is gone; the same bytes may then be appended again.
  ///
  /// The same if the process closed the descriptor: its number may be that of another file.
  void append(std::string_view bytes) {
    if (!file_.is_own()) throw closed_by_job(path_.string());
    if (write_all(file_.get(), bytes)) {
      size_ += bytes.size();
      return;
    }
    const int error = errno;
    // A reader takes a part that stays for a torn end.
    [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), static_cast<off_t>(size_));
    throw unwritable(path_.string(), std::strerror(error));
  }

 private:
  std::filesystem::path path_;
  OwnFile file_;
  std::uint64_t size_ = 0;
};

}  // namespace lockstep
