#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

/// Columns that a terminal or a comment shows without breaking a line.
inline constexpr std::size_t kConsoleWidth = 100;

/// Text of a job or a framework as anyone may show it: UTF-8, a byte that belongs to no character
/// being U+FFFD; no control characters but newlines, `\x1b` standing for them; no tabs; no
/// characters that turn the direction of writing or end a line, `\u202e` standing for them; nothing
/// that a CI service takes for a command (`::error::` where a word begins, `##[`), `\x3a` or `\x23`
/// standing for its first character.
std::string printable(std::string_view text);

/// The same in one line: `\x0a` stands for a newline. For names, places and titles.
std::string plain(std::string_view text);

/// Bytes of the character of UTF-8 that begins at `at`; 0 when none does.
std::size_t character_length(std::string_view text, std::size_t at);

/// The code point of one character of UTF-8.
unsigned code_point(std::string_view character);

/// Whether a terminal obeys a character instead of showing it, newlines too: control characters,
/// and those that turn the direction of writing or end a line.
bool is_obeyed(std::string_view character);

/// Whether a command of a CI service begins at `at` that needs no line of its own: `##[`, `##vso[`.
bool begins_command(std::string_view text, std::size_t at);

/// `text`, printable, in lines of at most `width` columns, broken between words, each ending in a
/// newline; the first indented by `indent`, the others by `hanging` more.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t hanging = 0,
                    std::size_t width = kConsoleWidth);

/// Every line of `text` in lines of at most `width` columns, each ending in a newline. Blanks stay
/// as they are: a line is broken at its last blank that fits, else in the middle of a word, and
/// goes on after `hanging` blanks.
std::string folded(const std::string& text, std::size_t width, std::size_t hanging = 0);

/// Every line of `text` behind `prefix`.
std::string prefixed(const std::string& text, std::string_view prefix);

/// The beginning of `text`, at most `most` bytes; " [...]" stands for the rest.
std::string beginning(const std::string& text, std::size_t most);

/// The end of `text`, at most `most` bytes; "[...] " stands for what came before.
std::string ending(const std::string& text, std::size_t most);

}  // namespace lockstep
