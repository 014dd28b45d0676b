#include "reports/base/installed_path.h"

#include <system_error>

namespace lockstep {

namespace fs = std::filesystem;

fs::path installed_path(const fs::path& program, const fs::path& relative,
                        const fs::path& otherwise) {
  if (!program.is_absolute()) return otherwise;
  const fs::path above_bin = program.parent_path().parent_path();
  for (const fs::path& prefix : {above_bin, above_bin.parent_path()}) {
    std::error_code failure;
    if (fs::exists(prefix / relative, failure)) return prefix / relative;
  }
  return otherwise;
}

fs::path installed_path(const fs::path& relative, const fs::path& otherwise) {
  std::error_code failure;
  return installed_path(fs::read_symlink("/proc/self/exe", failure), relative, otherwise);
}

}  // namespace lockstep
