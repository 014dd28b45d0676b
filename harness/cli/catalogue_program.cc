#include "harness/cli/catalogue_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "harness/cli/catalogue_mark.h"
#include "harness/cli/start_variables.h"
#include "reports/base/current_folder.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/installed_path.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = LOCKSTEP_CATALOGUE_MARK;
/// Three short lines and a path.
constexpr std::size_t kLongestMark = 8UL * 1024;
constexpr std::size_t kLongestVersionFile = 64UL * 1024;

/// Empty if it is not set.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string asked_for() { return variable("LOCKSTEP_CATALOGUE"); }

/// The value of a line "name=value"; absent if there is none.
std::optional<std::string> field(std::string_view lines, std::string_view name) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=') {
      return std::string(line.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

/// The content of the mark at the start of `text`; absent if it is none: any program that searches
/// for marks contains the first line.
std::optional<CatalogueProgram> read_mark(std::string_view text) {
  const std::string_view lines = text.substr(kMark.size(), kLongestMark);
  const auto end = lines.find('\0');
  if (end == lines.npos) return std::nullopt;
  const auto version = field(lines.substr(0, end), "lockstep");
  const auto torch = field(lines.substr(0, end), "torch");
  const auto library = field(lines.substr(0, end), "library");
  if (!version || !torch || !library) return std::nullopt;
  return CatalogueProgram{{}, *version, *torch, *library};
}

CatalogueProgram read_catalogue(const fs::path& path) {
  const std::string file = read_text(path, kLargestProgram);
  for (std::string_view text = file;; text.remove_prefix(kMark.size())) {
    const void* const found = ::memmem(text.data(), text.size(), kMark.data(), kMark.size());
    if (!found) throw no_catalogue(path.string(), "it is not a program with scenarios");
    text.remove_prefix(static_cast<std::size_t>(static_cast<const char*>(found) - text.data()));
    if (auto catalogue = read_mark(text)) {
      catalogue->path = path;
      return *catalogue;
    }
  }
}

/// A path of a wheel is relative to the program. Python may have its torch elsewhere.
void find_torch_of_wheel(CatalogueProgram& catalogue) {
  fs::path& library = catalogue.torch_library;
  if (library.is_absolute()) return;
  std::string folder = variable("LOCKSTEP_TORCH_FOLDER");
  if (!fs::path(folder).is_absolute()) folder.clear();
  catalogue.is_torch_elsewhere = !folder.empty();
  library = folder.empty() ? (catalogue.path.parent_path() / library).lexically_normal()
                           : fs::path(folder) / "lib" / library.filename();
}

/// The loader searches LD_LIBRARY_PATH first, so it may find another torch.
bool is_torch_on_library_path() { return ::dlopen("libtorch_cpu.so", RTLD_LAZY) != nullptr; }

/// The text in quotes in the first line that begins with `word` and has one; empty: there is none.
std::string quoted_in_line(std::string_view text, std::string_view word) {
  constexpr std::string_view kQuotes = "'\"";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t begin = line.starts_with(word) ? line.find_first_of(kQuotes) : line.npos;
    if (begin == line.npos) continue;
    const std::string_view quoted = line.substr(begin + 1);
    const std::string_view inside = quoted.substr(0, quoted.find_first_of(kQuotes));
    if (!inside.empty()) return std::string(inside);
  }
  return "";
}

/// The version of the torch with that library, from its Python files; empty if it has none.
std::string version_of_torch(const fs::path& library) {
  const fs::path file = library.parent_path().parent_path() / "version.py";
  std::error_code failure;
  if (!fs::is_regular_file(file, failure) || ::access(file.c_str(), R_OK) != 0) return "";
  const std::string text = read_text(file, kLongestVersionFile);
  return quoted_in_line(text, "__version__");
}

void require_torch(const CatalogueProgram& catalogue) {
  const fs::path& library = catalogue.torch_library;
  const std::string wanted = torch_release(catalogue.torch_version);
  if (::access(library.c_str(), R_OK) != 0) {
    const int error = errno;
    if (is_torch_on_library_path()) return;
    throw unreadable_torch(library.string(), std::strerror(error), wanted);
  }
  const std::string version = version_of_torch(library);
  if (version.empty() || torch_release(version) == wanted) return;
  throw other_torch(library.parent_path().parent_path().string(), version, wanted);
}

constexpr const char* kCatalogue = "libexec/lockstep/lockstep-catalogue";

/// In libexec of the prefix; empty if this program is in the bin of none.
fs::path path_beside() {
  const fs::path prefix = prefix_of(fs::read_symlink("/proc/self/exe"));
  return prefix.empty() ? prefix : prefix / kCatalogue;
}

}  // namespace

std::string torch_release(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

fs::path catalogue_path() {
  const std::string asked = asked_for();
  return asked.empty() ? path_beside() : fs::path(asked);
}

bool is_catalogue_expected() {
  std::error_code failure;
  return !asked_for().empty() || fs::exists(path_beside(), failure);
}

CatalogueProgram find_catalogue() {
  const fs::path path = catalogue_path();
  if (::access(path.c_str(), R_OK | X_OK) != 0) {
    throw no_catalogue(path.empty() ? kCatalogue : path.string(), std::strerror(errno));
  }
  if (!fs::is_regular_file(path)) throw no_catalogue(path.string(), "it is not a file");
  CatalogueProgram catalogue = read_catalogue(path);
  if (catalogue.lockstep_version != LOCKSTEP_VERSION) {
    throw other_catalogue(path.string(), catalogue.lockstep_version, LOCKSTEP_VERSION);
  }
  find_torch_of_wheel(catalogue);
  require_torch(catalogue);
  return catalogue;
}

void let_loader_find_torch(const CatalogueProgram& catalogue) {
  if (!catalogue.is_torch_elsewhere) return;
  const std::string folder = catalogue.torch_library.parent_path().string();
  // An empty entry would be the working folder.
  std::string folders = folder;
  std::istringstream others(variable("LD_LIBRARY_PATH"));
  for (std::string other; std::getline(others, other, ':');) {
    if (fs::path(other).is_absolute()) folders += ":" + other;
  }
  ::setenv("LD_LIBRARY_PATH", folders.c_str(), /*overwrite=*/1);
}

void become_catalogue(char* const* arguments) {
  const CatalogueProgram catalogue = find_catalogue();
  require_current_folder();
  set_start_variables();
  let_loader_find_torch(catalogue);
  ::execv(catalogue.path.c_str(), arguments);
  throw no_catalogue(catalogue.path.string(), std::strerror(errno));
}

}  // namespace lockstep
