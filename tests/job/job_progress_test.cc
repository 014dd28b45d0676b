#include "harness/job/job_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::seconds;

/// What is written to stderr, which is `descriptor` meanwhile.
std::string written_to(int descriptor, int reader, const std::function<void()>& work) {
  const int before = ::dup(STDERR_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  work();
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  ::close(descriptor);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = ::read(reader, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
  ::close(reader);
  return text;
}

/// The progress of a job at these seconds.
void show_progress(const std::vector<std::pair<int, const char*>>& shown) {
  const JobProgress::Clock::time_point begin;
  JobProgress progress(begin);
  for (const auto& [second, text] : shown) progress.show(text, begin + seconds(second));
}

std::string on_terminal(const char* kind, const std::vector<std::pair<int, const char*>>& shown) {
  int reader = -1, terminal = -1;
  termios raw{};
  ::cfmakeraw(&raw);
  EXPECT_EQ(::openpty(&reader, &terminal, nullptr, &raw, nullptr), 0);
  ::setenv("TERM", kind, 1);
  return written_to(terminal, reader, [&] { show_progress(shown); });
}

TEST(JobProgress, IsTheTitleOfATerminalAndALineAMinute) {
  EXPECT_EQ(on_terminal("xterm", {{1, "a"}, {2, "a"}, {30, "b"}, {61, "b"}, {70, "b"}, {125, "c"}}),
            "\033[22;2t\033]2;a\033\\\033]2;b\033\\\nb\n\033]2;c\033\\\nc\n\033[23;2t");
}

TEST(JobProgress, IsALineAMinuteWithoutTitles) {
  const std::vector<std::pair<int, const char*>> shown{{1, "a"}, {61, "b"}, {122, "b"}};
  EXPECT_EQ(on_terminal("linux", shown), "\nb\n");
  EXPECT_EQ(on_terminal("dumb", shown), "b\n");
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  EXPECT_EQ(written_to(pipe[1], pipe[0], [&] { show_progress(shown); }), "b\n");
}

}  // namespace
}  // namespace lockstep
