// The end of a process by an exception that nobody catches, as Gloo's threads end one.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "harness/watch/lockstep_watch.h"

namespace lockstep {
namespace {

void throw_on_a_thread() {
  std::thread([] { throw std::runtime_error("sizes differ"); }).join();
}

/// Waits for the end of the process on another thread, and notes it.
void note_end() {
  lockstep_watch_delay_termination();
  std::thread([] {
    while (lockstep_watch_is_terminating() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::fputs("noted, ", stderr);
    lockstep_watch_allow_termination();
  }).detach();
}

TEST(Termination, IsNotedByAnotherThreadBeforeTheProcessEndsAsItWould) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    note_end();
    throw_on_a_thread();
  };
  EXPECT_EXIT(end(), testing::KilledBySignal(SIGABRT),
              "^noted, terminate called .*\n.*sizes differ");
}

TEST(Termination, HappensAlthoughNobodyAllowsIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    lockstep_watch_delay_termination();
    throw_on_a_thread();
  };
  EXPECT_EXIT(end(), testing::KilledBySignal(SIGABRT), "sizes differ");
}

/// Its other threads do not exist.
TEST(Termination, OfAForkedProcessIsNotDelayed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [] {
    lockstep_watch_delay_termination();
    const pid_t child = ::fork();
    if (child == 0) throw_on_a_thread();
    const auto begin = std::chrono::steady_clock::now();
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto taken = std::chrono::steady_clock::now() - begin;
    const bool is_at_once = taken < std::chrono::milliseconds(1900);  // of two seconds
    ::_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && is_at_once ? 0 : 1);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lockstep
