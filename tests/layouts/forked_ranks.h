#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/command.h"

namespace lockstep {

/// Runs a script of this folder, without ".py", on the worlds of `arguments`, as forked_ranks.py
/// takes them. It finds `import lockstep`.
inline Outcome run_forked_ranks(const std::string& script, const std::string& arguments) {
  return run_shell(fmt::format(
      "env PYTHONPATH={0}/share/lockstep/python OMP_NUM_THREADS=1 {1} {2}/tests/forked_ranks.py "
      "{2}/tests/layouts/{3}.py {4}",
      LOCKSTEP_BUILD, LOCKSTEP_PYTHON, LOCKSTEP_SOURCE_DIR, script, arguments));
}

}  // namespace lockstep
