#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// Columns that a terminal or a comment shows without breaking a line.
inline constexpr std::size_t kConsoleWidth = 100;

/// Text of a job or a framework as anyone may show it: UTF-8, a byte that belongs to no character
/// being U+FFFD; no control characters but newlines, `\x1b` standing for them; no tabs.
std::string printable(std::string_view text);

/// `text`, printable, in lines of at most `width` columns, broken between words, each ending in a
/// newline; the first indented by `indent`, the others by `hanging` more.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t hanging = 0,
                    std::size_t width = kConsoleWidth);

/// Every line of `text` behind `prefix`.
std::string prefixed(const std::string& text, std::string_view prefix);

/// The beginning of `text`, at most `most` bytes; " [...]" stands for the rest.
std::string beginning(const std::string& text, std::size_t most);

/// The end of `text`, at most `most` bytes; "[...] " stands for what came before.
std::string ending(const std::string& text, std::size_t most);

}  // namespace lockstep
