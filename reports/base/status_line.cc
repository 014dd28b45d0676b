#include "reports/base/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

#include "reports/base/terminal.h"

namespace lockstep {
namespace {

/// The terminal's own, whatever COLUMNS says: a longer line could not be taken back.
std::size_t width() {
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return is_known ? size.ws_col : 80;
}

}  // namespace

StatusLine::StatusLine() : is_shown_(terminal_of(STDERR_FILENO).obeys_escapes) {}

StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (!is_shown_) return;
  clear();
  std::fputs(text.substr(0, width() - 1).c_str(), stderr);
  std::fflush(stderr);
  has_text_ = true;
}

void StatusLine::clear() {
  if (has_text_) std::fputs("\r\033[K", stderr);
  has_text_ = false;
}

}  // namespace lockstep
