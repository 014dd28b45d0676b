#include "harness/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "harness/cli/standard_output.h"
#include "reports/base/error.h"
#include "reports/base/exit_status.h"

namespace lockstep {

namespace {

/// Says what is wrong, if anybody can hear it: the exit status says it too.
void complain(const std::string& sentence) {
  std::fputs(("lockstep: " + sentence + "\n").c_str(), stderr);
}

/// A file that is opened as descriptor 1 would receive what is printed.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const CommandName& command : kCommands) names.emplace_back(command.name);
  return names;
}

/// Null where the program passes the command on.
const Command* find_command(const Program& program, std::string_view name) {
  for (const Command& command : program.commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

/// `run` for "lockstep rnu": CLI11 would call it an unexpected argument.
void check_command(std::string_view name) {
  const std::vector<std::string> names = command_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw unknown_name("command", name, names);
  }
}

/// What --help or --version prints.
ExitStatus show_answer(const CLI::App& app, const CLI::ParseError& question) {
  std::ostringstream text;
  app.exit(question, text, text);
  write_standard_output(text.str());
  return ExitStatus::as_expected;
}

void add_commands(const Program& program, CLI::App& app) {
  const std::string exit_statuses = exit_statuses_as_text();
  app.footer(exit_statuses);
  for (const CommandName& name : kCommands) {
    CLI::App& one = *app.add_subcommand(std::string(name.name), std::string(name.summary));
    const Command* const command = find_command(program, name.name);
    if (!command) continue;
    command->add_options(one);
    if (command->has_status_table) one.footer(exit_statuses);
  }
}

ExitStatus parse_and_dispatch(const Program& program, int argc, char** argv) {
  const bool has_command = argc > 1 && argv[1][0] != '-';
  if (has_command) {
    check_command(argv[1]);
    if (!find_command(program, argv[1])) return program.pass_on(argv);
  }
  CLI::App app(
      "Shows whether the ranks of a distributed training job stay in lockstep, and if not,\n"
      "the first place where they part and why.",
      "lockstep");
  app.set_version_flag("--version", program.version);
  app.require_subcommand(1);
  add_commands(program, app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return show_answer(app, error);
    complain(std::string(error.what()) + "\nSee 'lockstep --help' or 'lockstep COMMAND --help'.");
    return ExitStatus::usage;
  }
  const Command* const command = find_command(program, app.get_subcommands().front()->get_name());
  return command ? command->run() : program.pass_on(argv);
}

ExitStatus answer(const std::function<Program()>& make, int argc, char** argv) {
  try {
    return parse_and_dispatch(make(), argc, argv);
  } catch (...) {
    const Error error = caught_error();
    complain(error.what());
    return exit_status(error.kind());
  }
}

}  // namespace

int run_program(const std::function<Program()>& make, int argc, char** argv) {
  open_standard_streams();
  // A file that may not grow is an error of the write, with a sentence.
  std::signal(SIGXFSZ, SIG_IGN);
  return static_cast<int>(answer(make, argc, argv));
}

}  // namespace lockstep
