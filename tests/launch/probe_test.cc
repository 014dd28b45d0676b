#include "harness/launch/probe.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

TEST(Probe, KeepsStatusAndBothOutputs) {
  const Probe seen = probe(
      [] {
        std::puts("out");
        std::fputs("err", stderr);
        return 3;
      },
      kLong);
  EXPECT_EQ(seen.end.kind, ExitKind::exited);
  EXPECT_EQ(seen.end.code, 3);
  EXPECT_THAT(seen.output, testing::AllOf(testing::HasSubstr("out"), testing::HasSubstr("err")));
}

TEST(Probe, OutlivesACrash) {
  const Probe seen = probe(
      []() -> int {
        ::raise(SIGKILL);
        return 0;
      },
      kLong);
  EXPECT_EQ(seen.end.kind, ExitKind::signalled);
}

TEST(Probe, EndsABodyThatHangs) {
  const Probe seen = probe(
      []() -> int {
        for (;;) ::pause();
      },
      milliseconds(100));
  EXPECT_EQ(seen.end.kind, ExitKind::unfinished);
}

TEST(Probe, KeepsTheBeginningOfMuchOutput) {
  const Probe seen = probe_program({"/bin/sh", "-c", "echo first; exec /usr/bin/yes"}, kLong);
  EXPECT_NE(seen.end.kind, ExitKind::unfinished) << "it may not write for a minute";
  EXPECT_EQ(first_line(seen.output), "first");
  EXPECT_EQ(seen.output.size(), 65536U);
}

TEST(Probe, OfAProgramThatIsNotThereSaysSo) {
  const Probe seen = probe_program({"/nowhere/program"}, kLong);
  EXPECT_EQ(seen.end.code, 127);
  EXPECT_EQ(seen.output, "No such file or directory");
}

TEST(Probe, IsToldWhereNoFileCanBeOpened) {
#ifdef LOCKSTEP_SANITIZED
  GTEST_SKIP() << "the sanitizer's own checks open pipes, and take their failure for a fault";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    end_with([] {
      const rlimit none{3, 3};
      ::setrlimit(RLIMIT_NOFILE, &none);
      const Probe seen = probe([] { return 0; }, kLong);
      return seen.end.kind == ExitKind::unstarted && !seen.end.detail.empty() ? 0 : 1;
    });
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(FirstLine, IsTheFirstThatIsNotBlank) {
  EXPECT_EQ(first_line("\n \t\r\n  a b \r\nc"), "a b");
  EXPECT_EQ(first_line(" \n"), "");
}

}  // namespace
}  // namespace lockstep
