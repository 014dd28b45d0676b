#include "harness/launch/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>

#include "reports/base/exit_status.h"

namespace lockstep {
namespace {

constexpr int kDefect = static_cast<int>(ExitStatus::defect);

/// Buffered output at a fork would be written by both processes.
void flush_output() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have ended before the line above; then the signal would never come.
  if (::getppid() != parent) ::_exit(kDefect);
}

void use_default_signals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void redirect(int log) {
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
}

int run_guarded(const std::function<int(const RankPlacement&)>& rank_main,
                const RankPlacement& placement) {
  try {
    return rank_main(placement);
  } catch (const std::exception& error) {
    std::cerr << "uncaught exception: " << error.what() << '\n';
  } catch (...) {
    std::cerr << "uncaught exception that is not a std::exception\n";
  }
  return kDefect;
}

[[noreturn]] void be_rank(RankPlacement placement, std::size_t log, RankFiles& files, pid_t parent,
                          const std::function<int(const RankPlacement&)>& rank_main) {
  ::setpgid(0, 0);
  die_with(parent);
  use_default_signals();
  redirect(files.logs[log].get());
  files.logs.clear();
  if (placement.rank == 0) {
    placement.rendezvous.listen_fd = files.listener.get();
  } else {
    files.listener = {};
  }
  ::setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  // The store looks up the name of each address it connects to. A lost answer would cost five
  // seconds of the cell's time.
  ::setenv("RES_OPTIONS", "timeout:1 attempts:1", /*overwrite=*/0);
  const int status = run_guarded(rank_main, placement);
  flush_output();
  ::_exit(status);
}

}  // namespace

pid_t start_rank(RankPlacement placement, std::size_t log, RankFiles& files,
                 const std::function<int(const RankPlacement&)>& rank_main) {
  flush_output();
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) be_rank(std::move(placement), log, files, parent, rank_main);
  // The rank makes the same call, so the group exists before either continues.
  if (pid > 0) ::setpgid(pid, pid);
  return pid;
}

}  // namespace lockstep
