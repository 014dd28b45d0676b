#include "harness/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/bisection.h"
#include "harness/cli/completion.h"
#include "harness/cli/help.h"
#include "harness/cli/manual.h"
#include "harness/cli/standard_output.h"
#include "reports/base/exit_status.h"
#include "reports/base/plain_text.h"
#include "reports/base/terminal.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

/// The command line. "help run" is read as "run --help".
struct Arguments {
  Arguments(std::string name, int argc, char** argv)
      : program(std::move(name)), words(argv, argv + argc) {
    if (words.size() > 1 && words[1] == "help") {
      words.erase(words.begin() + 1);
      words.emplace_back("--help");
    }
    point();
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// The words before `--`.
  std::vector<std::string> own_words() const {
    return {words.begin(), std::find(words.begin(), words.end(), "--")};
  }

  /// Removes the words after `--`, and returns them.
  std::vector<std::string> cut_command() {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    std::vector<std::string> command;
    if (dashes != words.end()) command.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
    point();
    return command;
  }

  void point() {
    pointers.clear();
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
  }

  std::string program;
  std::vector<std::string> words;
  std::vector<char*> pointers;  ///< to the words, and a final null
};

/// The name by which the user called this program; a catalogue started by `lockstep` gets the same.
std::string name_of_program(int argc, char** argv) {
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  return name.empty() ? "lockstep" : plain(name);
}

/// Reports an error, if standard error is open; the exit status reports it as well. Its sentence
/// may repeat any word of the command line and any name of a file.
void complain(const std::string& program, const std::string& sentence) {
  std::fputs(fmt::format("{}: {}\n", program, printable_error(sentence)).c_str(), stderr);
}

/// Otherwise a file opened as descriptor 1 would receive the output.
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

/// Null if the program passes the command on.
const Command* find_command(const Program& program, std::string_view name) {
  for (const Command& command : program.commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

/// Suggests `run` for "lockstep rnu": CLI11 would call it an unexpected argument.
void check_command(std::string_view name) {
  const std::vector<std::string> names = command_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw unknown_name("command", name, names);
  }
}

/// Prints the answer to --help.
ExitStatus show_answer(const CLI::App& app, const CLI::ParseError& question) {
  std::ostringstream text;
  app.exit(question, text, text);
  write_standard_output(text.str());
  return ExitStatus::as_expected;
}

/// "lockstep run"
std::string full_name(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return parent ? parent->get_name() + " " + app.get_name() : app.get_name();
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// "--ranks" of "--ranks=2", "-v" of "-vv"; empty if it is no option.
std::string option_in(const std::string& word) {
  const bool is_option = word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
  if (!is_option) return "";
  return word[1] == '-' ? word.substr(0, word.find('=')) : word.substr(0, 2);
}

/// CLI11 would report an unknown option last, after missing words, and with its value. Behind a
/// word that is no option it may be one of a job's command.
void check_options(const CLI::App& app, const std::vector<std::string>& words) {
  bool follows_word = false;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string name = option_in(words[i]);
    if (name.empty()) {
      follows_word = true;
      continue;
    }
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (!option && follows_word && takes_command(app)) {
      throw wrong_arguments(
          full_name(app),
          fmt::format("'{}' is no option of '{}'; if it is one of the job's command, "
                      "put -- before that command",
                      name, full_name(app)),
          usage_line(app, full_name(app)));
    }
    if (!option) throw unknown_option(full_name(app), name, options_of(app));
    const bool has_value_behind = option->get_items_expected_max() > 0 && name == words[i];
    if (has_value_behind) ++i;
  }
}

void add_commands(const Program& program, CLI::App& app) {
  const std::size_t width = terminal_of(STDOUT_FILENO).width;
  app.formatter(help_formatter(width));
  app.footer(help_footer(width));
  for (const CommandName& name : kCommands) {
    CLI::App& one = *app.add_subcommand(std::string(name.name), std::string(name.summary));
    one.allow_extras();
    const Command* const command = find_command(program, name.name);
    if (!command) continue;
    command->add_options(one);
    one.footer(help_footer(name, app.get_name(), width));
  }
}

/// "--ranks needs a value: N[,N...]" instead of CLI11's "--ranks: 1 required N[,N...] missing"; it
/// has the same error for an option that is given twice.
std::string fault_in_words(const CLI::App& app, const CLI::ParseError& error) {
  std::string said = error.what();
  const CLI::Option* const option = app.get_option_no_throw(said.substr(0, said.find(':')));
  if (!option || !dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return said;
  const std::size_t given = option->results().size();
  if (given > 1) return fmt::format("{} is given {} times, not once", option->get_name(), given);
  return fmt::format("{} needs a value: {}", option->get_name(), option->get_type_name());
}

void parse_arguments(CLI::App& app, CLI::App& chosen, const Arguments& arguments) {
  try {
    app.parse(static_cast<int>(arguments.words.size()), arguments.pointers.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) throw;
    throw wrong_arguments(full_name(chosen), fault_in_words(chosen, error),
                          usage_line(chosen, full_name(chosen)));
  }
  const std::vector<std::string> extra = chosen.remaining();
  if (!extra.empty())
    throw unexpected_words(full_name(chosen), extra, usage_line(chosen, full_name(chosen)));
}

/// What the program is asked without a command.
struct Questions {
  bool is_version = false;
  bool is_json = false;
  std::string shell;  ///< whose completions are asked for; empty: none
};

void add_questions(CLI::App& app, Questions& questions) {
  CLI::Option* const version = app.add_flag("-V,--version", questions.is_version,
                                            "Display program version information and exit");
  app.add_flag("--json", questions.is_json, "with --version: as an object for scripts")
      ->needs(version);
  app.add_option("--completion", questions.shell,
                 "print the completions for a shell, bash, zsh or fish: source <(lockstep "
                 "--completion bash)")
      ->type_name("SHELL");
}

/// The answer, or an empty text: nothing was asked.
std::string answer_to(const Questions& questions, const Program& program, const std::string& name) {
  if (!questions.shell.empty()) return completion_script(questions.shell, name);
  if (!questions.is_version) return "";
  return questions.is_json ? version_as_json(program.version())
                           : version_as_text(program.version());
}

/// The command line without a command, and its options.
class Frame {
 public:
  Frame(const Program& program, const std::string& name)
      : app_(
            "Shows whether the ranks of a distributed training job stay in lockstep, and if not, "
            "the first divergence and its cause.",
            name) {
    add_questions(app_, questions_);
    app_.require_subcommand(0, 1);
    add_commands(program, app_);
  }

  CLI::App& app() { return app_; }
  const Questions& questions() const { return questions_; }

 private:
  CLI::App app_;
  Questions questions_;
};

/// Answers a shell, or the build that makes the pages of the manual: a word with `question` before
/// it. Another program answers for its commands.
ExitStatus answer_aside(const Program& program, const Arguments& arguments,
                        const std::string& question) {
  std::vector<std::string> words{arguments.words.begin() + 2, arguments.words.end()};
  const bool is_complete = question == kComplete;
  if (is_complete && words.empty()) words.emplace_back();
  if (!is_complete && !words.empty()) check_command(words[0]);
  const std::vector<std::string> names = command_names();
  const bool has_command = words.size() > (is_complete ? 1 : 0) &&
                           std::find(names.begin(), names.end(), words[0]) != names.end();
  const Command* const command = has_command ? find_command(program, words[0]) : nullptr;
  if (has_command && !command) return program.pass_on(arguments.pointers.data());
  Frame frame(program, arguments.program);
  write_standard_output(is_complete ? completions(frame.app(), command, words)
                                    : manual_page(frame.app(), command));
  return ExitStatus::as_expected;
}

/// No command was given. Fails, because a script whose command came out empty must not pass.
ExitStatus show_help_only(const CLI::App& app) {
  std::fputs(app.help().c_str(), stderr);
  return ExitStatus::usage;
}

ExitStatus parse_and_dispatch(const Program& program, Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  if (words.size() > 1 && (words[1] == kComplete || words[1] == kManual)) {
    return answer_aside(program, arguments, words[1]);
  }
  const bool has_command = words.size() > 1 && !words[1].starts_with('-');
  const Command* command = nullptr;
  if (has_command) {
    check_command(words[1]);
    command = find_command(program, words[1]);
    if (!command) return program.pass_on(arguments.pointers.data());
    if (command->take_command) command->take_command(arguments.cut_command());
  }
  Frame frame(program, arguments.program);
  CLI::App& app = frame.app();
  if (words.size() < 2) return show_help_only(app);
  CLI::App& chosen = command ? *app.get_subcommand(words[1]) : app;
  check_options(chosen, {words.begin() + (command ? 2 : 1), words.end()});
  try {
    parse_arguments(app, chosen, arguments);
  } catch (const CLI::ParseError& question) {
    return show_answer(app, question);
  }
  const std::string text = answer_to(frame.questions(), program, arguments.program);
  if (!text.empty()) {
    write_standard_output(text);
    return ExitStatus::as_expected;
  }
  return command ? command->run() : show_help_only(app);
}

int answer(const std::function<Program()>& make, int argc, char** argv) {
  const std::string name = name_of_program(argc, argv);
  bool is_bisection = false;
  try {
    Arguments arguments(name, argc, argv);
    is_bisection = has_bisect_option(arguments.own_words());
    const ExitStatus status = parse_and_dispatch(make(), arguments);
    return is_bisection ? status_for_bisect(status) : static_cast<int>(status);
  } catch (...) {
    const Error error = caught_error();
    complain(name, error.what());
    return is_bisection ? status_for_bisect(error.kind())
                        : static_cast<int>(exit_status(error.kind()));
  }
}

}  // namespace

int run_program(const std::function<Program()>& make, int argc, char** argv) {
  open_standard_streams();
  // Exceeding the file size limit then fails the write, with a message.
  std::signal(SIGXFSZ, SIG_IGN);
  return answer(make, argc, argv);
}

}  // namespace lockstep
