#pragma once

#include <cstddef>
#include <functional>

namespace lockstep {

/// The abilities of the stream of a descriptor.
struct Terminal {
  bool is_terminal = false;    ///< a person may be watching
  bool obeys_escapes = false;  ///< a terminal that can move its cursor: TERM is not `dumb`
  bool has_colour = false;     ///< and wants it: NO_COLOR is not set
  bool has_utf8 = false;       ///< a terminal with a locale of UTF-8
  std::size_t width = 0;       ///< columns of a line
};

/// Columns of a line: COLUMNS if it is a whole number, else `terminal_width` (0: no terminal),
/// else kConsoleWidth; at least kLeastWidth, at most kMostWidth.
std::size_t width_of_lines(const char* columns, std::size_t terminal_width);

inline constexpr std::size_t kLeastWidth = 40;
inline constexpr std::size_t kMostWidth = 1000;

/// The abilities of `descriptor`, by the system and by the variables COLUMNS, NO_COLOR, TERM,
/// LC_ALL, LC_CTYPE and LANG of `environment`.
Terminal terminal_of(int descriptor,
                     const std::function<const char*(const char* name)>& environment);

/// The same by the variables of this process.
Terminal terminal_of(int descriptor);

}  // namespace lockstep
