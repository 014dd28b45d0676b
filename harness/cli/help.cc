#include "harness/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "reports/base/exit_status.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

bool is_read_by(const Variable& variable, std::string_view command) {
  std::istringstream commands{std::string(variable.commands)};
  for (std::string name; commands >> name;) {
    if (name == command) return true;
  }
  return false;
}

/// A name, and below it its meaning.
std::string entry(std::string_view name, std::string_view meaning, std::size_t width) {
  return fmt::format("  {}\n{}", name, wrapped(std::string(meaning), 6, 0, width));
}

std::string examples_of(const CommandName& command, const std::string& program, std::size_t width) {
  std::string text = "Examples:\n";
  for (const Example& example : command.examples) {
    text += entry(fmt::format("{} {}", program, example.arguments), example.effect, width);
  }
  return text;
}

/// Of `command`; empty: all. Nothing where there is none.
std::string environment_of(std::string_view command, std::size_t width) {
  std::string text;
  for (const Variable& variable : kVariables) {
    if (!command.empty() && !is_read_by(variable, command)) continue;
    text += entry(variable.name, variable.meaning, width);
  }
  return text.empty() ? "" : "Environment:\n" + text + "\n";
}

}  // namespace

std::string help_footer(std::size_t width) {
  return environment_of("", width) + exit_statuses_as_text(width);
}

std::string help_footer(const CommandName& command, const std::string& program, std::size_t width) {
  return fmt::format("{}\n{}{}", examples_of(command, program, width),
                     environment_of(command.name, width), exit_statuses_of(command.name, width));
}

}  // namespace lockstep
