#include "harness/launch/log_tail.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

#include "reports/base/secrets.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostBytes = 4096;
constexpr int kMostLines = 20;
/// Limit of the backward search for lines: errors come with stack frames of several hundred bytes.
constexpr std::size_t kMostRead = 256UL * 1024;

/// The last bytes of the file and the byte before them, which shows whether they begin a line.
std::string last_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - static_cast<std::streamoff>(kMostRead) - 1));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The end of a text, at most `most` bytes, starting at the beginning of a line if possible.
std::string_view exit_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  text.remove_prefix(text.size() - most - 1);
  const std::size_t newline = text.find('\n');
  const bool one_line = newline == text.npos || newline + 1 == text.size();
  return text.substr(one_line ? 1 : newline + 1);
}

/// "frame #12: c10d::TCPStore::..."
bool is_frame(std::string_view line) {
  constexpr std::string_view kFrame = "frame #";
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!line.starts_with(kFrame)) return false;
  line.remove_prefix(kFrame.size());
  const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  return digits > 0 && line.substr(digits).starts_with(':');
}

std::string without_frames(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline == text.npos ? newline : newline + 1);
    if (!is_frame(line)) kept += line;
    text.remove_prefix(line.size());
  }
  return kept;
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
  // Before it is cut: a part of a secret does not look like one.
  const std::string text = without_frames(mask_secrets(exit_of(bytes, kMostRead)));
  return std::string(last_lines(exit_of(text, kMostBytes)));
}

}  // namespace lockstep
