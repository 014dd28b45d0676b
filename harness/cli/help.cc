#include "harness/cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/exit_status.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// A name, and its meaning below it.
std::string named(std::string_view name, std::string_view meaning, std::size_t width) {
  return fmt::format("  {}\n{}", name, wrapped(std::string(meaning), 6, 0, width));
}

std::string examples_of(const CommandName& command, const std::string& program, std::size_t width) {
  std::string text = "Examples:\n";
  for (const Example& example : command.examples) {
    text += named(fmt::format("{} {}", program, example.arguments), example.effect, width);
  }
  return text;
}

/// The variables of `command`; empty: of all. An empty text if there are none.
std::string environment_of(std::string_view command, std::size_t width) {
  std::string text;
  for (const Variable& variable : kVariables) {
    if (!command.empty() && !is_read_by(variable, command)) continue;
    text += named(variable.name, variable.meaning, width);
  }
  return text.empty() ? "" : "Environment:\n" + text + "\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), 0, 0, width_);
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    return usage_line(*app, name) + "\n";
  }

  /// CLI11 begins a group with an empty line, and ends all but the last with another.
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    const std::string text = CLI::Formatter::make_group(group, is_positional, options);
    const bool is_first = is_positional || options.front()->get_group() == kOptionsWithoutGroup;
    return is_first ? text : text.substr(text.find_first_not_of('\n'));
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional);
    const bool takes_several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    if (is_positional && takes_several) name += "...";
    if (!is_positional && option->get_type_size() != 0) name += " " + option->get_type_name();
    std::string meaning = option->get_description();
    if (!option->get_default_str().empty()) {
      meaning += fmt::format(" (default: {})", option->get_default_str());
    }
    return entry(name, meaning);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }

 private:
  std::string entry(const std::string& name, const std::string& meaning) const {
    constexpr std::size_t kColumn = 26;
    constexpr std::size_t kNarrow = 70;
    if (width_ < kNarrow) return named(name, meaning, width_);
    const std::string start = fmt::format("  {:<{}}", name, kColumn - 2);
    const std::string text = wrapped(meaning, kColumn, 0, width_);
    if (start.size() > kColumn || start.back() != ' ') return start + "\n" + text;
    return std::string(text).replace(0, kColumn, start);
  }

  std::size_t width_;
};

}  // namespace

bool is_read_by(const Variable& variable, std::string_view command) {
  std::istringstream commands{std::string(variable.commands)};
  for (std::string name; commands >> name;) {
    if (name == command) return true;
  }
  return false;
}

std::string help_footer(std::size_t width) {
  return environment_of("", width) + exit_statuses_as_text(width);
}

std::string help_footer(const CommandName& command, const std::string& program, std::size_t width) {
  return fmt::format("{}\n{}{}", examples_of(command, program, width),
                     environment_of(command.name, width), exit_statuses_of(command.name, width));
}

bool takes_command(const CLI::App& app) { return app.get_name() == "watch"; }

std::string usage_line(const CLI::App& app, const std::string& name) {
  const std::string text = CLI::Formatter().make_usage(&app, name);
  const auto begin = text.find_first_not_of('\n');
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  // CLI11 does not see what follows "--".
  return takes_command(app) ? line + " -- COMMAND..." : line;
}

std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width) {
  return std::make_shared<HelpFormatter>(width);
}

}  // namespace lockstep
