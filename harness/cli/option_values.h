#pragma once

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <string>
#include <system_error>
#include <vector>

#include "reports/base/error.h"
#include "reports/base/names.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep {

/// For CLI11: an empty word is a mistake in a script, not a request for the default.
std::string complaint_if_empty(const std::string& word);

/// Whether an option has a value; else it is a flag.
bool takes_value(const CLI::Option& option);

/// The options that the command line has, with their values, for a command that does the same
/// again: without those that say only where and how it is reported.
std::vector<std::string> options_given(const CLI::App& app);

/// Reads "0.5" (seconds). Throws Error (usage) unless it is from 0.001 to a week.
std::chrono::milliseconds duration(const std::string& text);

/// Throws Error (usage) unless it is a whole number from `lowest` to `highest`.
template <class Number>
Number whole_number(const char* option, const std::string& text, Number lowest, Number highest) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < lowest ||
      value > highest) {
    throw bad_value(option, text, fmt::format("a whole number from {} to {}", lowest, highest));
  }
  return value;
}

}  // namespace lockstep
