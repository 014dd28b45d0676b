#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

namespace lockstep {

/// The Python of the build, or LOCKSTEP_TEST_PYTHON, which may have another torch.
inline std::string python_of_trainings() {
  const char* const other = std::getenv("LOCKSTEP_TEST_PYTHON");
  return other ? other : LOCKSTEP_PYTHON;
}

/// The command that starts a training of this folder on two ranks. Several may run at the same
/// time.
inline std::string torchrun(const std::string& script) {
  return fmt::format(
      "{} -m torch.distributed.run --standalone --nproc-per-node 2 {}/tests/watch/{}.py",
      python_of_trainings(), LOCKSTEP_SOURCE_DIR, script);
}

/// Starts them without torchrun, by one process that imports torch for all: a third of the CPU time
/// of a short job.
/// For trainings that meet by meeting.py, and jobs that end by themselves.
inline std::string two_ranks(const std::string& script) {
  return fmt::format("{1} {0}/tests/watch/two_ranks.py {0}/tests/watch/{2}.py", LOCKSTEP_SOURCE_DIR,
                     python_of_trainings(), script);
}

/// As torchrun, but the ranks are forked from one process that has imported torch.
inline std::string forked_ranks(const std::string& script, int ranks = 2) {
  return fmt::format("{1} {0}/tests/forked_ranks.py {0}/tests/watch/{2}.py {3}",
                     LOCKSTEP_SOURCE_DIR, python_of_trainings(), script, ranks);
}

}  // namespace lockstep
