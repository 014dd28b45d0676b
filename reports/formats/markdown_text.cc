#include "reports/formats/markdown_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::string_view kNoWidth = "&#8203;";

bool is_word(std::string_view text, std::size_t at) {
  return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

bool is_one_of(std::string_view text, std::size_t at, std::string_view characters) {
  return at < text.size() && characters.find(text[at]) != std::string_view::npos;
}

std::string reference(char c) { return fmt::format("&#{};", static_cast<int>(c)); }

std::string in_one_line(const std::string& text) {
  std::string line = printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.erase(0, line.find_first_not_of(' '));
  return line;
}

/// ":tada:" and ":100:" become pictures, "://" a link; "18:52:46" is a time.
bool is_colon_of_something(std::string_view text, std::size_t at) {
  if (text.substr(at + 1, 2) == "//") return true;
  std::size_t end = at + 1;
  while (is_word(text, end) || is_one_of(text, end, "_+-")) ++end;
  const std::string_view between = text.substr(at + 1, end - at - 1);
  const bool is_short_number =
      between.size() <= 2 && between.find_first_not_of("0123456789") == std::string_view::npos;
  return is_one_of(text, end, ":") && !is_short_number;
}

/// A mark at the beginning of a line that starts a list, a heading or a rule.
bool is_mark(std::string_view text, std::size_t at) {
  if (at == 0) return is_one_of(text, at, "-+=#");
  const bool ends_number = is_one_of(text, at, ".)") && text.substr(0, at).find_first_not_of(
                                                            "0123456789") == std::string_view::npos;
  return ends_number && (at + 1 == text.size() || text[at + 1] == ' ');
}

/// Whether a commit hash begins at `at`: 7 to 40 hexadecimal digits. Without a letter it is a
/// number.
bool is_commit(std::string_view text, std::size_t at) {
  if (at > 0 && is_word(text, at - 1)) return false;
  const std::size_t end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
  const std::string_view digits = text.substr(at, end - at);
  return digits.size() >= 7 && digits.size() <= 40 && !is_word(text, end) &&
         digits.find_first_of("abcdef") != std::string_view::npos;
}

/// Whether GitHub formats the character at `at` together with the following text.
bool is_to_be_parted(std::string_view text, std::size_t at) {
  switch (text[at]) {
    case '@':
    case '#':
      return is_word(text, at + 1);
    case ':':
      return is_colon_of_something(text, at);
    case '-':
      return at >= 2 && text.substr(at - 2, 2) == "GH" && is_word(text, at + 1);
    case 'w':
    case 'W':
      return is_one_of(text, at + 1, ".");
    default:
      return is_commit(text, at);
  }
}

/// The source text that displays one character as itself.
std::string escaped(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c == '&') return "&amp;";
  if (c == '<') return "&lt;";
  if (c == '>') return "&gt;";
  // GitHub's documented escape from formulas.
  if (c == '$') return "<span>$</span>";
  const bool is_inside_word = at > 0 && is_word(text, at - 1) && is_word(text, at + 1);
  if (c == '_' && !is_inside_word) return reference(c);
  if (is_one_of(text, at, "\\`*[]|~") || is_mark(text, at)) return reference(c);
  return std::string(1, c);
}

std::size_t longest_run_of_backticks(std::string_view text) {
  std::size_t longest = 0;
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

}  // namespace

std::string in_prose(const std::string& text) {
  const std::string line = in_one_line(text);
  std::string prose;
  for (std::size_t at = 0; at < line.size(); ++at) {
    prose += escaped(line, at);
    if (is_to_be_parted(line, at)) prose += kNoWidth;
  }
  return prose;
}

std::string in_code(const std::string& text) {
  const std::string line = in_one_line(text);
  if (line.empty()) return "";
  const std::string ticks(longest_run_of_backticks(line) + 1, '`');
  const std::string_view space = ticks.size() > 1 ? " " : "";
  return fmt::format("{0}{1}{2}{1}{0}", ticks, space, line);
}

std::string fenced(const std::string& text) {
  std::string block = printable(text);
  if (!block.ends_with('\n')) block += '\n';
  const std::string ticks(std::max<std::size_t>(longest_run_of_backticks(block) + 1, 3), '`');
  return fmt::format("{0}text\n{1}{0}\n", ticks, block);
}

}  // namespace lockstep
