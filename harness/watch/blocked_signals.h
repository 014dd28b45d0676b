#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>

namespace lockstep {

/// Blocks all signals of this thread, and with them those of threads that it starts: the job's
/// handlers run on the job's threads.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

/// While it exists, a write of this thread beyond the limit of file sizes fails, and the job gets
/// no SIGXFSZ, which would end it.
class BlockedSizeSignal {
 public:
  BlockedSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~BlockedSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    const timespec now = {};
    while (sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedSizeSignal(const BlockedSizeSignal&) = delete;
  BlockedSizeSignal& operator=(const BlockedSizeSignal&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
};

}  // namespace lockstep
