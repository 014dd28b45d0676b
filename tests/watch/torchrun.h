#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace lockstep {

/// The command that starts a training of this folder on two ranks: with the Python of the build, or
/// with LOCKSTEP_TEST_PYTHON, which may have another torch. `port`: of the rendezvous, for jobs
/// that run at the same time; 0: the usual one.
inline std::string torchrun(const std::string& script, int port = 0) {
  const char* const other = std::getenv("LOCKSTEP_TEST_PYTHON");
  const std::string master = port == 0 ? "" : fmt::format("--master-port {} ", port);
  return fmt::format("{} -m torch.distributed.run {}--nproc-per-node 2 {}/tests/watch/{}.py",
                     other ? other : LOCKSTEP_PYTHON, master, LOCKSTEP_SOURCE_DIR, script);
}

}  // namespace lockstep
