#include "harness/cli/option_values.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace lockstep {

std::string complaint_if_empty(const std::string& word) {
  return word.empty() ? "must not be empty" : "";
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

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0; }

std::vector<std::string> options_given(const CLI::App& app) {
  constexpr std::array<std::string_view, 5> kWhereAndHow{"--out", "--group-readable", "--format",
                                                         "--quiet", "--verbose"};
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (std::ranges::find(kWhereAndHow, name) != kWhereAndHow.end()) continue;
    const bool is_list = option->get_delimiter() != '\0';
    if (!takes_value(*option)) {
      words.push_back(name);
    } else if (is_list) {
      words.insert(words.end(), {name, fmt::format("{}", fmt::join(option->results(), ","))});
    } else {
      for (const std::string& value : option->results()) words.insert(words.end(), {name, value});
    }
  }
  return words;
}

}  // namespace lockstep
