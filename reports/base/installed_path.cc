#include "reports/base/installed_path.h"

#include <system_error>

namespace lockstep {

namespace fs = std::filesystem;

fs::path prefix_of(const fs::path& program) {
  if (!program.is_absolute()) return {};
  const fs::path folder = program.parent_path();
  if (folder.filename() == "bin") return folder.parent_path();
  const fs::path above = folder.parent_path();
  const bool is_in_libexec = folder.filename() == "lockstep" && above.filename() == "libexec";
  return is_in_libexec ? above.parent_path() : fs::path();
}

fs::path installed_path(const fs::path& program, const fs::path& relative,
                        const fs::path& otherwise) {
  const fs::path prefix = prefix_of(program);
  std::error_code failure;
  if (prefix.empty() || !fs::exists(prefix / relative, failure)) return otherwise;
  return prefix / relative;
}

fs::path installed_path(const fs::path& relative, const fs::path& otherwise) {
  std::error_code failure;
  return installed_path(fs::read_symlink("/proc/self/exe", failure), relative, otherwise);
}

}  // namespace lockstep
