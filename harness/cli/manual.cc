#include "harness/cli/manual.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

#include "harness/cli/help.h"
#include "reports/base/exit_status.h"

namespace lockstep {

namespace {

/// Text for roff, in one line: '-' stays a hyphen that can be copied, and no line is a request.
std::string roff(std::string_view text) {
  std::string safe;
  for (const char character : text) {
    if (character == '\\') {
      safe += "\\";
    } else if (character == '-') {
      safe += "\\-";
    } else if (character == '\'') {
      safe += "\\(aq";
    } else {
      safe += character == '\n' ? ' ' : character;
    }
  }
  return safe.starts_with('.') ? "\\&" + safe : safe;
}

std::string section(std::string_view heading) { return fmt::format(".SH {}\n", heading); }

/// A name and its meaning below it.
std::string entry(const std::string& name, std::string_view meaning) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(meaning));
}

/// "--format FORMAT", "-q, --quiet", "RUN".
std::string name_of(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (option.get_positional()) return option.get_name();
  return option.get_type_size() == 0 ? text : text + " " + option.get_type_name();
}

std::string options_of(const CLI::App& app, bool are_positional) {
  std::string text;
  std::string group = kOptionsWithoutGroup;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || option->get_positional() != are_positional) continue;
    if (!are_positional && option->get_group() != group) {
      group = option->get_group();
      text += fmt::format(".SS {}\n", roff(group));
    }
    std::string meaning = option->get_description();
    if (!option->get_default_str().empty()) {
      meaning += fmt::format(" (default: {})", option->get_default_str());
    }
    text += entry(name_of(*option), meaning);
  }
  return text;
}

std::string environment_of(std::string_view command) {
  std::string text;
  for (const Variable& variable : kVariables) {
    if (!command.empty() && !is_read_by(variable, command)) continue;
    text += entry(std::string(variable.name), variable.meaning);
  }
  return text.empty() ? "" : section("ENVIRONMENT") + text;
}

std::string in_capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

std::string head(const std::string& page, std::string_view summary) {
  return fmt::format(".TH {} 1 \"\" \"Lockstep {}\" \"User Commands\"\n{}{} \\- {}\n",
                     roff(in_capitals(page)), LOCKSTEP_VERSION, section("NAME"), roff(page),
                     roff(summary));
}

/// "[OPTIONS] TABLE RUN"
std::string arguments_of(const CLI::App& app, bool starts_another) {
  std::string text = "[OPTIONS]";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const bool takes_several = option->get_items_expected_max() > 1;
    const std::string name = option->get_name() + (takes_several ? "..." : "");
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return starts_another ? text + " -- COMMAND" : text;
}

std::string page_of_command(const CLI::App& program, const CLI::App& app, const Command& command) {
  const std::string page = program.get_name() + "-" + app.get_name();
  std::string text = head(page, app.get_description()) + section("SYNOPSIS");
  text += fmt::format("\\fB{} {}\\fR {}\n", roff(program.get_name()), roff(app.get_name()),
                      roff(arguments_of(app, static_cast<bool>(command.take_command))));
  const std::string positionals = options_of(app, true);
  if (!positionals.empty()) text += section("ARGUMENTS") + positionals;
  text += section("OPTIONS") + options_of(app, false);
  text += section("EXAMPLES");
  for (const CommandName& name : kCommands) {
    if (name.name != command.name) continue;
    for (const Example& example : name.examples) {
      text += entry(fmt::format("{} {}", program.get_name(), example.arguments), example.effect);
    }
  }
  text += environment_of(command.name) + section("EXIT STATUS");
  for (const CommandExit& one : kCommandExits) {
    if (one.command != command.name) continue;
    text += entry(fmt::format("{}", static_cast<int>(one.status)), one.meaning);
  }
  return text + section("SEE ALSO") + fmt::format("\\fB{}\\fR(1)\n", roff(program.get_name()));
}

std::string page_of_program(const CLI::App& app) {
  std::string text = head(app.get_name(), "do the ranks of a training job stay in lockstep?");
  text +=
      section("SYNOPSIS") + fmt::format("\\fB{}\\fR [OPTIONS] [COMMAND]\n", roff(app.get_name()));
  text += section("DESCRIPTION") + roff(app.get_description()) + "\n" + section("COMMANDS");
  for (const CommandName& name : kCommands) text += entry(std::string(name.name), name.summary);
  text += section("OPTIONS") + options_of(app, false) + environment_of("");
  text += section("EXIT STATUS");
  for (const auto& [status, meaning] : kExitMeanings) {
    text += entry(fmt::format("{}", static_cast<int>(status)), meaning);
  }
  text += section("SEE ALSO");
  for (const CommandName& name : kCommands) {
    const bool is_last = &name == &kCommands.back();
    text +=
        fmt::format("\\fB{}\\-{}\\fR(1){}\n", roff(app.get_name()), name.name, is_last ? "" : ",");
  }
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& app, const Command* command) {
  if (!command) return page_of_program(app);
  return page_of_command(app, *app.get_subcommand(std::string(command->name)), *command);
}

}  // namespace lockstep
