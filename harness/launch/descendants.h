#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep {

/// While it lives, a process whose parent died becomes a child of this process when it descends
/// from it, so that what the ranks started can be found and ended. Requires one thread.
class Descendants {
 public:
  Descendants();
  ~Descendants();
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;

  /// Kills and reaps all children that this process did not have when this was made, and theirs.
  void end_all();

 private:
  int was_subreaper_ = 0;
  std::vector<pid_t> spared_;  ///< those it had before, and those it may not kill
};

}  // namespace lockstep
