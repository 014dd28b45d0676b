// The program `lockstep`. It becomes the catalogue, a program beside it that is linked with torch.
// It needs no torch itself: where torch cannot be read, the loader would end the catalogue before
// it could say anything.

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "reports/base/exit_status.h"

namespace {

namespace fs = std::filesystem;

int complain(const char* what, const char* path, int error, const char* remedy) {
  std::fprintf(stderr, "lockstep: %s: %s: %s. %s\n", what, path, std::strerror(error), remedy);
  return static_cast<int>(lockstep::ExitStatus::failed);
}

/// The loader looks in LD_LIBRARY_PATH first: torch may be there instead.
bool is_torch_elsewhere() { return ::dlopen("libtorch_cpu.so", RTLD_LAZY) != nullptr; }

/// In libexec of the prefix, as this program is in its bin.
fs::path catalogue() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() /
         "libexec/lockstep_catalogue";
}

}  // namespace

int main(int, char** argv) {
  constexpr const char* kTorch = LOCKSTEP_TORCH_LIBRARY;
  if (::access(kTorch, R_OK) != 0) {
    const int error = errno;
    if (!is_torch_elsewhere()) {
      return complain("torch cannot be read", kTorch, error,
                      "Make it readable for this user, or set LOCKSTEP_PYTHON to a Python that has "
                      "torch and build Lockstep again.");
    }
  }
  const fs::path program = catalogue();
  ::execv(program.c_str(), argv);
  return complain("cannot start", program.c_str(), errno, "Build or install Lockstep again.");
}
