#include "reports/base/private_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr mode_t kUsual = S_IRWXU | S_IRWXG | S_IRWXO;
constexpr mode_t kEnterAsGroup = S_IRGRP | S_IXGRP;

/// The mode of the folder that holds a file; open to all if it cannot be told.
mode_t mode_of_parent(const fs::path& path) {
  const fs::path parent = path.parent_path();
  struct stat status = {};
  if (::stat(parent.empty() ? "." : parent.c_str(), &status) != 0) return kUsual;
  return status.st_mode;
}

bool is_open_to_others(mode_t mode) { return (mode & S_IRWXO) != 0; }
bool is_open_to_group_alone(mode_t mode) {
  return (mode & S_IRGRP) != 0 && !is_open_to_others(mode);
}

/// It may belong to another user: then the files in it are private all the same.
void close_to_others(const fs::path& folder, Readers readers) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0 || !is_open_to_others(status.st_mode)) return;
  const mode_t group = readers == Readers::group ? kEnterAsGroup : 0;
  const mode_t kept = S_ISUID | S_ISGID | S_ISVTX | S_IRWXU | group;
  static_cast<void>(::chmod(folder.c_str(), status.st_mode & kept));
}

}  // namespace

mode_t mode_of_run_folder(Readers readers) {
  return readers == Readers::group ? S_IRWXU | kEnterAsGroup : mode_t{S_IRWXU};
}

void make_private_folder(const fs::path& folder, Readers readers) {
  std::error_code failure;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), failure);
  if (failure) throw unwritable(folder.string(), failure.message());
  if (::mkdir(folder.c_str(), mode_of_run_folder(readers)) == 0) return;
  const int error = errno;
  if (!fs::is_directory(folder, failure)) throw unwritable(folder.string(), std::strerror(error));
  close_to_others(folder, readers);
}

mode_t mode_of_new_file(const fs::path& file) {
  constexpr mode_t kOwner = S_IRUSR | S_IWUSR;
  return is_open_to_group_alone(mode_of_parent(file)) ? kOwner | S_IRGRP : kOwner;
}

mode_t mode_of_new_folder(const fs::path& folder) {
  const mode_t parent = mode_of_parent(folder);
  if (is_open_to_others(parent)) return kUsual;
  return is_open_to_group_alone(parent) ? S_IRWXU | kEnterAsGroup : S_IRWXU;
}

}  // namespace lockstep
