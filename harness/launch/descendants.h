#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep {

/// While it exists, orphaned descendants of this process become its children. So all processes
/// started by the ranks can be found and ended. Requires one thread.
class Descendants {
 public:
  Descendants();
  ~Descendants();
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;

  /// Kills and reaps all children that this process did not have at construction, and their
  /// descendants.
  void end_all();

 private:
  int was_subreaper_ = 0;
  std::vector<pid_t> spared_;  ///< children at construction, and those it may not kill
};

}  // namespace lockstep
