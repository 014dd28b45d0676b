#include "harness/cli/option_values.h"

#include <cmath>

namespace lockstep {

std::string complaint_if_empty(const std::string& word) {
  return word.empty() ? "must not be empty" : "";
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

std::chrono::milliseconds duration(const std::string& text) {
  double seconds = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kLongest = 7 * 24 * 3600;
  if (failure != std::errc() || end != text.data() + text.size() || !(seconds >= 0.001) ||
      seconds > kLongest) {
    throw bad_value("--timeout", text, "seconds, from 0.001 to 604800 (a week)");
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace lockstep
