#pragma once

#include <string>

namespace lockstep {

/// `text` in one line of prose, in a table or in HTML: nothing in it formats, quotes, links,
/// mentions a user or becomes a picture on GitHub. Active characters are written as character
/// references, or separated by a space of no width.
std::string in_prose(const std::string& text);

/// `text` in one line as code; empty for no text.
std::string in_code(const std::string& text);

/// `text` line by line as a block of code, ending in a newline. The fence is longer than any run of
/// backticks in it.
std::string fenced(const std::string& text);

}  // namespace lockstep
