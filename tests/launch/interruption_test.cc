#include "harness/launch/interruption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

/// Exit of a process that has default signals and runs `body`.
int status_of(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGHUP, SIG_DFL);
    end_with(body);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(Interruption, IsNotedAndEndsNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = status_of([signal] {
      const Interruption watch;
      ::raise(signal);
      return Interruption::noted() == signal ? 0 : 1;
    });
    EXPECT_EQ(status, 0) << signal;
  }
}

TEST(Interruption, ThatIsRepeatedAtOnceIsTheSame) {
  const int status = status_of([] {
    const Interruption watch(1h);
    ::raise(SIGTERM);
    ::raise(SIGTERM);
    ::raise(SIGINT);
    return Interruption::noted() == SIGTERM ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(Interruption, ThatIsRepeatedLaterEndsTheProcess) {
  const int status = status_of([] {
    const Interruption watch(0ms);
    ::raise(SIGTERM);
    ::raise(SIGINT);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST(Interruption, IsNoneWhereTheSignalWasIgnored) {
  const int status = status_of([] {
    ::signal(SIGINT, SIG_IGN);
    const Interruption watch(0ms);
    ::raise(SIGINT);
    return Interruption::noted();
  });
  EXPECT_EQ(status, 0);
}

TEST(Interruption, IsNotedNoLongerOnceNobodyWatches) {
  const int status = status_of([] {
    { const Interruption watch; }
    ::raise(SIGTERM);
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

// Programs ----------------------------------------------------------------------------------------

/// Launches a shell script, which is ended once its log contains the word "ready".
class LaunchedProgram : public Launch {
 protected:
  LaunchedOne launch_script(const std::string& script) {
    const auto file = options_.folder / "launcher.log";
    options_.look_at_peers = [&file] {
      const bool is_ready = text_if_there(file).find("ready") != std::string::npos;
      return PeerState{{}, is_ready ? "the test says so" : ""};
    };
    return launch_program(options_, {"/bin/sh", "-c", script}, file, [] {});
  }
  std::string log() const { return text_of(options_.folder / "launcher.log"); }
};

TEST_F(LaunchedProgram, IsGivenTimeToCleanUp) {
  launch_script("trap 'echo cleaned; exit' TERM; echo ready; sleep 600 & wait");
  EXPECT_THAT(log(), testing::HasSubstr("cleaned"));
}

TEST_F(LaunchedProgram, ThatDoesNotEndItselfIsKilled) {
  const auto launched = launch_script("trap '' TERM; echo ready; while :; do sleep 1; done");
  EXPECT_EQ(launched.end.kind, ExitKind::unfinished);
  EXPECT_EQ(launched.end.detail, "the test says so");
}

}  // namespace
}  // namespace lockstep
