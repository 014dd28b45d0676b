#include "harness/launch/isolated_python.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Its arguments are folders of packages, which come before those of the installation.
constexpr const char* kSearch = R"(
import os, site, sys
def _search(folders):
    here = os.path.realpath(os.getcwd())
    own = [at for at, path in enumerate(sys.path) if path.endswith("-packages")]
    at = own[0] if own else len(sys.path)
    sys.path[at:at] = [path for path in folders if os.path.realpath(path) != here]
    if sys.prefix == sys.base_prefix and not os.environ.get("PYTHONNOUSERSITE"):
        user = site.getusersitepackages()
        if os.path.isabs(user) and os.path.isdir(user) and os.path.realpath(user) != here:
            site.addsitedir(user)
_search(sys.argv[1:])
)";

/// Those of PYTHONPATH that do not depend on the working folder.
std::vector<std::string> folders_of_packages() {
  std::vector<std::string> folders;
  const char* const given = std::getenv("PYTHONPATH");
  std::istringstream all(given ? given : "");
  for (std::string folder; std::getline(all, folder, ':');) {
    if (fs::path(folder).is_absolute()) folders.push_back(folder);
  }
  return folders;
}

}  // namespace

std::vector<std::string> isolated_python(std::vector<std::string> python, const std::string& code) {
  python.insert(python.end(), {"-I", "-c", kSearch + code});
  for (std::string& folder : folders_of_packages()) python.push_back(std::move(folder));
  return python;
}

}  // namespace lockstep
