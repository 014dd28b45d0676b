#include "reports/base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "reports/base/plain_text.h"
#include "reports/base/unique_fd.h"

namespace lockstep {
namespace {

/// COLUMNS set to a value while it exists; null: unset.
class Columns {
 public:
  explicit Columns(const char* value) {
    if (value) {
      ::setenv("COLUMNS", value, 1);
    } else {
      ::unsetenv("COLUMNS");
    }
  }
  ~Columns() { ::unsetenv("COLUMNS"); }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;
};

/// A terminal of `columns` that nobody looks at.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{24, columns, 0, 0};
    EXPECT_EQ(::openpty(&ours_, &its_, nullptr, nullptr, &size), 0);
  }
  ~Terminal() {
    ::close(ours_);
    ::close(its_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  int fd() const { return its_; }

 private:
  int ours_ = -1;
  int its_ = -1;
};

TEST(TerminalWidth, IsThatOfTheTerminal) {
  const Columns none(nullptr);
  EXPECT_EQ(terminal_width(Terminal(40).fd()), 40U);
  EXPECT_EQ(terminal_width(Terminal(213).fd()), 213U);
}

TEST(TerminalWidth, IsNeverTooSmallToSayAnything) {
  const Columns none(nullptr);
  EXPECT_EQ(terminal_width(Terminal(3).fd()), 20U);
  EXPECT_EQ(terminal_width(Terminal(0).fd()), kConsoleWidth) << "it does not say";
}

TEST(TerminalWidth, OfWhatIsNoTerminalIsTheConsoles) {
  const Columns none(nullptr);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(terminal_width(null.get()), kConsoleWidth);
  EXPECT_EQ(terminal_width(-1), kConsoleWidth);
}

TEST(TerminalWidth, IsWhatColumnsSays) {
  const Terminal terminal(40);
  for (const auto& [value, width] : {std::pair("72", 72U),
                                     {"5", 20U},
                                     {"0", 40U},
                                     {"", 40U},
                                     {"wide", 40U},
                                     {"80x", 40U},
                                     {"-1", 40U},
                                     {"99999999999999999999999", 40U}}) {
    const Columns asked(value);
    EXPECT_EQ(terminal_width(terminal.fd()), width) << value;
  }
}

}  // namespace
}  // namespace lockstep
