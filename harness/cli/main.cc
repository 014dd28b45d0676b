#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>

#include "harness/cli/program.h"

namespace {

int removed_folder = -1;

/// MKL, which torch brings along, ends the process before `main` where the current folder was
/// removed. So it starts elsewhere then, and `main` goes back.
void leave_removed_folder() {
  static char path[PATH_MAX];
  if (::getcwd(path, sizeof(path))) return;
  removed_folder = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (removed_folder >= 0 && ::chdir("/") != 0) ::close(removed_folder);
}

void return_to_removed_folder() {
  if (removed_folder < 0) return;
  // Where it fails, the folder is as unusable as before.
  static_cast<void>(::fchdir(removed_folder) == 0);
  ::close(removed_folder);
}

/// Called before the libraries of the program are initialised.
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const kBeforeLibraries)() = leave_removed_folder;

}  // namespace

int main(int argc, char** argv) {
  return_to_removed_folder();
  const int status = lockstep::run_program(argc, argv);
  // Without destructors of libraries, as forked ranks end: torch's take its operators off its
  // tables one by one, a quarter of the time that a short command takes.
  std::fflush(nullptr);
  ::_exit(status);
}
