#include "harness/record/new_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness/record/environment.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"

namespace lockstep {

std::string temporary_name(const std::filesystem::path& path) {
  return fmt::format("{}.{}-{}.tmp", path.string(), host_name(), ::getpid());
}

bool write_new_file(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path own = temporary_name(path);
  write_whole_file(own, bytes);
  const bool is_first = ::link(own.c_str(), path.c_str()) == 0;
  const int error = errno;
  ::unlink(own.c_str());
  if (!is_first && error != EEXIST) throw unwritable(path.string(), std::strerror(error));
  return is_first;
}

}  // namespace lockstep
