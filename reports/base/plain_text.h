#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Columns that a terminal or a comment shows without wrapping.
inline constexpr std::size_t kConsoleWidth = 100;

/// Makes text of a job or framework safe to show. The result is UTF-8, with U+FFFD for invalid
/// bytes. Newlines stay, tabs become spaces, and other control characters become `\x1b` and the
/// like. Characters that change the writing direction or end a line become `\u202e` and the like.
/// In commands of CI services (`::error::` at the start of a word, `##[`) the first character
/// becomes `\x3a` or `\x23`.
std::string printable(std::string_view text);

/// The same of an error, except that invalid bytes become `\x9b` and the like: it may name a file.
std::string printable_error(std::string_view sentence);

/// The same in one line: newlines become `\x0a`. For names, places and titles.
std::string plain(std::string_view text);

/// Bytes of the UTF-8 character that begins at `at`; 0 if none does.
std::size_t character_length(std::string_view text, std::size_t at);

/// The code point of one UTF-8 character.
unsigned code_point(std::string_view character);

/// Whether a terminal obeys a character instead of showing it: control characters including
/// newlines, and characters that change the writing direction or end a line.
bool is_obeyed(std::string_view character);

/// Whether a CI command that needs no line of its own begins at `at`: `##[`, `##vso[`.
bool begins_command(std::string_view text, std::size_t at);

/// `text`, made printable, in lines of at most `width` columns, broken between words. Each line
/// ends in a newline. The first is indented by `indent`, the others by `hanging` more.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t hanging = 0,
                    std::size_t width = kConsoleWidth);

/// Every line of `text` in lines of at most `width` columns, each ending in a newline. Blanks stay
/// as they are: a line is broken at its last blank that fits, else in the middle of a word, and
/// goes on after `hanging` blanks.
std::string folded(const std::string& text, std::size_t width, std::size_t hanging = 0);

/// "1 rank", "2 ranks".
template <std::integral Count>
std::string counted(Count count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

/// "every step", "every 4 steps".
inline std::string every(std::int64_t count, std::string_view noun) {
  return "every " + (count == 1 ? std::string(noun) : counted(count, noun));
}

/// Splits "a,b" into its parts; an empty text into one empty part.
std::vector<std::string> split(const std::string& text, char separator);

/// "a, b, c and 2 more": the first texts, `most` of them.
std::string listed(const std::vector<std::string>& texts, std::size_t most);

/// Every line of `text` behind `prefix`.
std::string prefixed(const std::string& text, std::string_view prefix);

/// The beginning of `text`, at most `most` bytes; " [...]" replaces the rest.
std::string beginning(const std::string& text, std::size_t most);

/// The end of `text`, at most `most` bytes; "[...] " replaces the beginning.
std::string ending(const std::string& text, std::size_t most);

}  // namespace lockstep
