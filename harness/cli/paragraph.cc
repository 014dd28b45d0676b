#include "harness/cli/paragraph.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace lockstep {

namespace {

constexpr std::size_t kColumns = 80;

/// The bytes of `word` that fit into `room`, without cutting a UTF-8 character.
std::size_t fitting(const std::string& word, std::size_t room) {
  if (word.size() <= room) return word.size();
  std::size_t size = room;
  while (size > 1 && (word[size] & 0xc0) == 0x80) --size;
  return size;
}

}  // namespace

std::string paragraph(const std::string& start, const std::string& text) {
  const std::size_t room = kColumns - std::min(start.size(), kColumns / 2);
  std::istringstream words(text);
  std::string result = start;
  std::size_t used = 0;
  const auto new_line = [&] {
    result += "\n" + std::string(start.size(), ' ');
    used = 0;
  };
  for (std::string word; words >> word;) {
    std::replace_if(
        word.begin(), word.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
    if (used > 0 && used + 1 + word.size() > room) new_line();
    if (used > 0) result += ' ', ++used;
    while (word.size() > room) {
      const std::size_t size = fitting(word, room);
      result += word.substr(0, size);
      word.erase(0, size);
      new_line();
    }
    result += word;
    used += word.size();
  }
  return result + "\n";
}

}  // namespace lockstep
