#include "harness/launch/log_tail.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

namespace lockstep {
namespace {

constexpr std::streamoff kMostBytes = 4096;
constexpr int kMostLines = 20;

/// The last bytes of the file, and the one before them, which tells whether they begin a line.
std::string last_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kMostBytes - 1));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string_view without_cut_line(std::string_view text) {
  if (static_cast<std::streamoff>(text.size()) <= kMostBytes) return text;
  const std::size_t newline = text.find('\n');
  const bool one_line = newline == text.npos || newline + 1 == text.size();
  return text.substr(one_line ? 1 : newline + 1);
}

std::string_view last_lines(std::string_view text) {
  std::size_t begin = text.size();
  for (int line = 0; line < kMostLines && begin > 0; ++line) {
    const std::size_t newline = begin < 2 ? text.npos : text.rfind('\n', begin - 2);
    begin = newline == text.npos ? 0 : newline + 1;
  }
  return text.substr(begin);
}

}  // namespace

std::string log_tail(const std::filesystem::path& file) {
  const std::string bytes = last_bytes(file);
  return std::string(last_lines(without_cut_line(bytes)));
}

}  // namespace lockstep
