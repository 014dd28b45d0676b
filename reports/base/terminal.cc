#include "reports/base/terminal.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kLeastColumns = 20;

/// Of COLUMNS; 0 where it is not set to a number.
std::size_t columns_asked_for() {
  const char* const text = std::getenv("COLUMNS");
  if (!text) return 0;
  const char* const last = text + std::strlen(text);
  std::size_t columns = 0;
  const auto [end, failure] = std::from_chars(text, last, columns);
  return failure == std::errc() && end == last ? columns : 0;
}

}  // namespace

std::size_t terminal_width(int fd) {
  const std::size_t asked = columns_asked_for();
  if (asked > 0) return std::max(asked, kLeastColumns);
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kConsoleWidth;
  return std::max<std::size_t>(size.ws_col, kLeastColumns);
}

}  // namespace lockstep
