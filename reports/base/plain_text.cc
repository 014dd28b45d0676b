#include "reports/base/plain_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace lockstep {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

bool is_continued(std::string_view text, std::size_t at) {
  return (byte_at(text, at) & 0xc0) == 0x80;
}

/// The first two bytes reveal overlong forms, surrogates and code points beyond U+10FFFF.
bool may_follow(unsigned first, unsigned second) {
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

}  // namespace

unsigned code_point(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  unsigned point = character.size() == 1   ? first
                   : character.size() == 2 ? first & 0x1f
                   : character.size() == 3 ? first & 0x0f
                                           : first & 0x07;
  for (std::size_t i = 1; i < character.size(); ++i) {
    point = (point << 6) | (byte_at(character, i) & 0x3f);
  }
  return point;
}

std::size_t character_length(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !may_follow(first, byte_at(text, at + 1))) return 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continued(text, at + i)) return 0;
  }
  return length;
}

namespace {

/// The control characters of ASCII, and U+0080 to U+009F, which terminals obey as well.
bool is_control(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(character, 1) < 0xa0);
}

/// Marks, embeddings, overrides and isolates of the writing direction; line and paragraph
/// separators.
bool is_layout(unsigned point) {
  return point == 0x61c || point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

/// Whether a word begins at `at`. Non-ASCII counts as a blank, because some of it is.
bool begins_word(std::string_view text, std::size_t at) {
  return at == 0 || byte_at(text, at - 1) <= ' ' || byte_at(text, at - 1) >= 0x7f;
}

bool begins_any_command(std::string_view text, std::size_t at) {
  return begins_command(text, at) || (text.substr(at, 2) == "::" && begins_word(text, at));
}

std::string escape(std::string_view character) {
  const unsigned point = code_point(character);
  return is_layout(point) ? fmt::format("\\u{:04x}", point)
                          : fmt::format("\\x{:02x}", byte_at(character, character.size() - 1));
}

void append_printable(std::string& safe, std::string_view text, std::size_t at,
                      std::size_t length) {
  const std::string_view character = text.substr(at, length);
  const bool is_new_line = character == "\n";
  if (character == "\t") {
    safe += "    ";
  } else if (!is_new_line && (is_obeyed(character) || begins_any_command(text, at))) {
    safe += escape(character);
  } else {
    safe += character;
  }
}

}  // namespace

bool is_obeyed(std::string_view character) {
  return is_control(character) || is_layout(code_point(character));
}

bool begins_command(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "##") return false;
  const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz", at + 2);
  return end != std::string_view::npos && text[end] == '[';
}

namespace {

/// `invalid` gives the text for a byte that is not UTF-8.
template <class Invalid>
std::string printable_with(const Invalid& invalid, std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 0) {
      safe += invalid(text.substr(at, 1));
      ++at;
    } else {
      append_printable(safe, text, at, length);
      at += length;
    }
  }
  return safe;
}

}  // namespace

std::string printable(std::string_view text) {
  return printable_with([](std::string_view) { return kReplacement; }, text);
}

std::string printable_error(std::string_view sentence) {
  return printable_with(
      [](std::string_view byte) { return fmt::format("\\x{:02x}", byte_at(byte, 0)); }, sentence);
}

std::string plain(std::string_view text) {
  std::string line;
  for (const char c : printable(text)) {
    if (c == '\n') {
      line += "\\x0a";
    } else {
      line += c;
    }
  }
  return line;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t hanging,
                    std::size_t width) {
  std::string lines;
  std::string line(indent, ' ');
  std::size_t begin = indent;
  std::istringstream words(printable(text));
  for (std::string word; words >> word;) {
    if (line.size() > begin && line.size() + 1 + word.size() > width) {
      lines += line + "\n";
      begin = indent + hanging;
      line.assign(begin, ' ');
    }
    line += (line.size() > begin ? " " : "") + word;
  }
  return line.size() > begin ? lines + line + "\n" : lines;
}

namespace {

/// The place to break `line`, which is longer than `width`, after its first `indent` bytes.
std::size_t break_of(const std::string& line, std::size_t width, std::size_t indent) {
  const std::size_t blank = line.rfind(' ', width);
  if (blank != std::string::npos && line.find_first_not_of(' ', indent) < blank) return blank;
  std::size_t end = width;
  while (end > indent + 1 && is_continued(line, end)) --end;
  return end;
}

}  // namespace

std::string folded(const std::string& text, std::size_t width, std::size_t hanging) {
  hanging = std::min(hanging, width / 2);
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    for (std::size_t indent = 0; line.size() > width; indent = hanging) {
      const std::size_t end = break_of(line, width, indent);
      result += line.substr(0, end) + "\n";
      line.erase(0, line[end] == ' ' ? end + 1 : end);
      line.insert(0, hanging, ' ');
    }
    result += line + "\n";
  }
  return result;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const auto end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::string listed(const std::vector<std::string>& texts, std::size_t most) {
  const std::size_t shown = std::min(texts.size(), most);
  std::string text = fmt::format(
      "{}", fmt::join(texts.begin(), texts.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < texts.size()) text += fmt::format(" and {} more", texts.size() - shown);
  return text;
}

std::string prefixed(const std::string& text, std::string_view prefix) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result += fmt::format("{}{}\n", prefix, line);
  return result;
}

std::string beginning(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && is_continued(text, most)) --most;
  return text.substr(0, most) + " [...]";
}

std::string ending(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t begin = text.size() - most;
  while (begin < text.size() && is_continued(text, begin)) ++begin;
  return "[...] " + text.substr(begin);
}

}  // namespace lockstep
