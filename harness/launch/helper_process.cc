#include "harness/launch/helper_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <cerrno>

#include "harness/launch/rank_process.h"
#include "reports/base/error.h"

namespace lockstep {

HelperProcess::HelperProcess(const std::function<void()>& body) {
  RankFiles files;
  files.logs.emplace_back(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  pid_ = start_rank(RankPlacement{}, 0, files, [&](const RankPlacement&) {
    body();
    return 0;
  });
  if (pid_ < 0) throw no_process(::strerror(errno));
}

HelperProcess::~HelperProcess() {
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep
