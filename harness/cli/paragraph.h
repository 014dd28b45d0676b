#pragma once

#include <string>

namespace lockstep {

/// `text` in lines of at most 80 columns, each ending in a newline. The first begins with `start`,
/// the others with as many blanks. A word is cut only if it is longer than a line. Control
/// characters are shown as '?'.
std::string paragraph(const std::string& start, const std::string& text);

}  // namespace lockstep
