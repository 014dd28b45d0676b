#include "harness/cli/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "reports/base/usage_error.h"

namespace lockstep {

void write_standard_output(const std::string& text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written || std::fflush(stdout) != 0) {
    throw unwritable_output(std::strerror(errno));
  }
}

}  // namespace lockstep
