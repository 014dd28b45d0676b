#include "harness/pack/scratch_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::array<int, 6> kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU};

/// All scratch folders of this process lie in one. A signal handler reads its name.
std::array<char, PATH_MAX> all_folders{};
volatile sig_atomic_t owner = 0;          ///< the process whose folders they are; 0: there are none
std::array<char, PATH_MAX> unfinished{};  ///< a file that goes with them
volatile sig_atomic_t is_unfinished = 0;
std::size_t folders = 0;
std::size_t last_number = 0;

/// As getdents64(2) returns it; readdir may allocate memory, which a signal handler must not do.
struct DirectoryEntry {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short size;
  unsigned char type;
  char name[1];
};

bool is_dots(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

bool remove_tree(int parent, const char* name);

/// Removes what a read of the folder lists; whether it removed anything. May be called in a signal
/// handler.
bool remove_listed(int folder) {
  constexpr std::size_t kRoom = 1024;
  alignas(DirectoryEntry) std::array<char, kRoom> entries;
  bool has_removed = false;
  ::lseek(folder, 0, SEEK_SET);
  for (;;) {
    const long bytes = ::syscall(SYS_getdents64, folder, entries.data(), entries.size());
    if (bytes <= 0) return has_removed;
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const DirectoryEntry*>(entries.data() + at);
      at += entry->size;
      if (!is_dots(entry->name) && remove_tree(folder, entry->name)) has_removed = true;
    }
  }
}

/// Removes a file, or a folder with its content; whether it is gone. May be called in a signal
/// handler.
bool remove_tree(int parent, const char* name) {
  if (::unlinkat(parent, name, 0) == 0) return true;
  const int folder = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return false;
  while (remove_listed(folder)) {
  }
  ::close(folder);
  return ::unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

/// A child of this process inherits the handler until it starts another program.
void remove_and_end(int signal) {
  if (owner == ::getpid()) {
    remove_tree(AT_FDCWD, all_folders.data());
    if (is_unfinished != 0) ::unlink(unfinished.data());
  }
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::raise(signal);
}

void handle_signals(void (*from)(int), void (*to)(int)) {
  for (const int signal : kSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != from) continue;
    action = {};
    action.sa_handler = to;
    ::sigaction(signal, &action, nullptr);
  }
}

void make_folder_of_all() {
  std::error_code missing;
  const fs::path parent = fs::temp_directory_path(missing);
  const std::string name =
      (fs::absolute(missing ? "/tmp" : parent) / "lockstep-files-XXXXXX").string();
  if (name.size() >= all_folders.size()) throw unwritable(name, std::strerror(ENAMETOOLONG));
  std::copy_n(name.c_str(), name.size() + 1, all_folders.data());
  if (!::mkdtemp(all_folders.data())) throw unwritable(name, std::strerror(errno));
  owner = ::getpid();
  handle_signals(SIG_DFL, remove_and_end);
}

/// After the last folder was removed.
void leave() {
  if (--folders > 0) return;
  ::rmdir(all_folders.data());
  owner = 0;
  is_unfinished = 0;
  handle_signals(remove_and_end, SIG_DFL);
}

}  // namespace

ScratchFolder::ScratchFolder() {
  if (folders == 0) make_folder_of_all();
  ++folders;
  const fs::path folder = fs::path(all_folders.data()) / fmt::to_string(++last_number);
  std::error_code failure;
  if (fs::create_directory(folder, failure)) path_ = folder;
  if (!path_.empty()) return;
  leave();
  throw unwritable(folder.string(), failure.message());
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  leave();
}

void ScratchFolder::remove_with_it(const fs::path& file) {
  const std::string name = fs::absolute(file).string();
  if (name.size() >= unfinished.size()) throw unwritable(name, std::strerror(ENAMETOOLONG));
  std::copy_n(name.c_str(), name.size() + 1, unfinished.data());
  is_unfinished = 1;
}

void ScratchFolder::keep() { is_unfinished = 0; }

}  // namespace lockstep
