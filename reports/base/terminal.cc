#include "reports/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "reports/base/plain_text.h"

namespace lockstep {
namespace {

using Variables = std::function<const char*(const char* name)>;

/// Empty if it is not set.
std::string_view variable(const Variables& environment, const char* name) {
  const char* const value = environment(name);
  return value ? value : "";
}

/// 0 if it is not a whole number.
std::size_t whole_number_in(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

std::size_t columns_of_terminal(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// The first of the variables that is set decides, as in setlocale.
bool has_utf8_locale(const Variables& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view locale = variable(environment, name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos ||
           locale.find("utf-8") != locale.npos;
  }
  return false;
}

}  // namespace

std::size_t width_of_lines(const char* columns, std::size_t terminal_width) {
  std::size_t width = columns ? whole_number_in(columns) : 0;
  if (width == 0) width = terminal_width;
  if (width == 0) return kConsoleWidth;
  return std::clamp(width, kLeastWidth, kMostWidth);
}

Terminal terminal_of(int descriptor, const Variables& environment) {
  Terminal terminal;
  terminal.is_terminal = ::isatty(descriptor) == 1;
  const std::string_view term = variable(environment, "TERM");
  terminal.obeys_escapes = terminal.is_terminal && !term.empty() && term != "dumb";
  terminal.has_colour = terminal.obeys_escapes && variable(environment, "NO_COLOR").empty();
  terminal.has_utf8 = terminal.obeys_escapes && has_utf8_locale(environment);
  terminal.width = width_of_lines(environment("COLUMNS"),
                                  terminal.is_terminal ? columns_of_terminal(descriptor) : 0);
  return terminal;
}

Terminal terminal_of(int descriptor) {
  return terminal_of(descriptor, [](const char* name) { return std::getenv(name); });
}

}  // namespace lockstep
