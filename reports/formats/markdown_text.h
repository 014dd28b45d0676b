#pragma once

#include <string>

namespace lockstep {

/// `text` in one line of prose, in a table or in HTML: nothing in it formats, quotes, links, calls
/// somebody or turns into a picture on GitHub. What would is written as a character reference, or
/// parted by a space of no width.
std::string in_prose(const std::string& text);

/// `text` in one line as code; empty for no text.
std::string in_code(const std::string& text);

/// `text` line by line as a block of code, ending in a newline. The fence is longer than any run of
/// backticks in it.
std::string fenced(const std::string& text);

}  // namespace lockstep
