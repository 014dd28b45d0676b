#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace lockstep {

/// The command that starts a training of this folder on two ranks: with the Python of the build, or
/// with LOCKSTEP_TEST_PYTHON, which may have another torch. Several may run at the same time.
inline std::string torchrun(const std::string& script) {
  const char* const other = std::getenv("LOCKSTEP_TEST_PYTHON");
  return fmt::format(
      "{} -m torch.distributed.run --standalone --nproc-per-node 2 {}/tests/watch/{}.py",
      other ? other : LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR, script);
}

}  // namespace lockstep
