#include "harness/validate/command_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "harness/plan/axis_choices.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

std::string placeholder(const std::string& name) { return "{" + name + "}"; }

bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

/// Characters of a value that a folder may have.
std::string in_folder(std::string value) {
  for (char& c : value) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ||
                          c == '_' || c == '+' || c == '-';
    if (!is_plain) c = '_';
  }
  return value;
}

}  // namespace

CommandAxis command_axis(const std::string& text) {
  const std::size_t sign = text.find('=');
  CommandAxis axis{text.substr(0, sign), {}};
  std::istringstream values(sign == text.npos ? "" : text.substr(sign + 1));
  for (std::string value; std::getline(values, value, ',');) axis.values.push_back(value);
  const std::set<std::string> different(axis.values.begin(), axis.values.end());
  const bool is_usable = is_name(axis.name) && !axis.values.empty() && !different.contains("") &&
                         different.size() == axis.values.size();
  if (!is_usable) throw bad_value("--set", text, "NAME=A,B with different values, for {NAME}");
  return axis;
}

std::vector<CommandCell> cells_of(const std::vector<CommandAxis>& axes) {
  std::vector<AxisRange> ranges;
  for (const CommandAxis& axis : axes) ranges.push_back({axis.name, axis.values, axis.values[0]});
  const std::vector<Choice> choices =
      count_choices(ranges) <= kMostOfAllCells ? all_choices(ranges) : pairwise_choices(ranges);
  std::vector<CommandCell> cells;
  for (const Choice& choice : choices) {
    CommandCell& cell = cells.emplace_back();
    for (const AxisValue& chosen : choice) cell.emplace_back(chosen.axis, chosen.value);
  }
  return cells;
}

std::vector<std::string> filled(std::vector<std::string> words, const CommandCell& cell) {
  for (std::string& word : words) {
    for (const auto& [name, value] : cell) {
      const std::string wanted = placeholder(name);
      for (std::size_t at = word.find(wanted); at != word.npos;
           at = word.find(wanted, at + value.size())) {
        word.replace(at, wanted.size(), value);
      }
    }
  }
  return words;
}

std::string in_words(const CommandCell& cell) {
  std::string text;
  for (const auto& [name, value] : cell) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  }
  return text;
}

std::string folder_of(const CommandCell& cell) {
  std::string text;
  for (const auto& [name, value] : cell) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "-", name, in_folder(value));
  }
  return text.empty() ? "." : text;
}

void check_axes(const std::vector<CommandAxis>& axes,
                const std::vector<std::vector<std::string>>& commands) {
  for (const CommandAxis& axis : axes) {
    const std::string wanted = placeholder(axis.name);
    const bool is_used = std::ranges::any_of(commands, [&](const auto& words) {
      return std::ranges::any_of(
          words, [&](const std::string& word) { return word.find(wanted) != word.npos; });
    });
    if (is_used) continue;
    throw bad_value("--set", axis.name, fmt::format("a name that the command has as {}", wanted));
  }
}

}  // namespace lockstep
