#include "reports/plain_text.h"

#include <fmt/format.h>

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

/// Overlong forms, surrogates and what lies beyond U+10FFFF are told by the first two bytes.
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

/// Bytes of the character that begins at `at`; 0 when none does.
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

/// The control characters of ASCII, and U+0080 to U+009F, which terminals obey as well.
bool is_control(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(character, 1) < 0xa0);
}

void append_printable(std::string& text, std::string_view character) {
  if (character == "\t") {
    text += "    ";
  } else if (character == "\n" || !is_control(character)) {
    text += character;
  } else {
    text += fmt::format("\\x{:02x}", byte_at(character, character.size() - 1));
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 0) {
      safe += kReplacement;
      ++at;
    } else {
      append_printable(safe, text.substr(at, length));
      at += length;
    }
  }
  return safe;
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
