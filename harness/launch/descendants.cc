#include "harness/launch/descendants.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

namespace lockstep {
namespace {

std::vector<pid_t> children() {
  std::ifstream file("/proc/thread-self/children");
  return {std::istream_iterator<pid_t>(file), std::istream_iterator<pid_t>()};
}

/// Whether it could be ended: a child of another user cannot.
bool end(pid_t child) {
  if (::kill(child, SIGKILL) != 0) return false;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return true;
}

}  // namespace

Descendants::Descendants() : spared_(children()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Descendants::~Descendants() { ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }

void Descendants::end_all() {
  // Each round ends the orphans of the previous one: when a process dies, its children become ours.
  for (;;) {
    std::vector<pid_t> added = children();
    std::erase_if(added, [this](pid_t pid) {
      return std::find(spared_.begin(), spared_.end(), pid) != spared_.end();
    });
    if (added.empty()) return;
    for (const pid_t pid : added) {
      if (!end(pid)) spared_.push_back(pid);
    }
  }
}

}  // namespace lockstep
