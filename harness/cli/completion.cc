#include "harness/cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "harness/cli/option_values.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// Asks for each completion, so that it knows the scenarios. bash takes the '=' of "--format=json"
/// for a word of its own, and replaces what is behind it.
constexpr std::string_view kBash = R"(_lockstep() {
  local word own= IFS=$'\n' i
  local -a words=()
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- && $i -lt $COMP_CWORD ]]; then
      # Behind it is the command line of another program.
      declare -F _command_offset >/dev/null && _command_offset $((i + 1))
      return
    fi
    if [[ ${#words[@]} -gt 0 && ( $word == = || $own == = ) ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    own=$word
  done
  word=${words[${#words[@]}-1]}
  COMPREPLY=($("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null | cut -f 1))
  if [[ $word == --*=* && $COMP_WORDBREAKS == *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  fi
}
)";

constexpr std::string_view kZsh = R"(
_lockstep() {
  local line
  local -a found
  if [[ ${words[(i)--]} -lt $CURRENT ]]; then
    # Behind it is the command line of another program.
    shift ${words[(i)--]} words
    (( CURRENT = ${#words} ))
    _normal
    return
  fi
  for line in "${(@f)$("${words[1]}" --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( ${#found} )); then
    _describe lockstep found
  else
    _files
  fi
}
)";

/// fish takes what is behind a tab for the meaning.
constexpr std::string_view kFish = R"(
function __lockstep_words
  set -l words (commandline -opc)[2..] (commandline -ct)
  set -l dashes (contains -i -- -- $words[1..-2])
  if test -n "$dashes"
    # Behind it is the command line of another program.
    complete -C (string join ' ' -- $words[(math $dashes + 1)..])
    return
  end
  set -l program (string escape -- (commandline -opc)[1])
  set -l found (eval $program --complete (string escape -- $words) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
)";

struct Completion {
  std::string word;
  std::string meaning;
};

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string as_lines(const std::vector<Completion>& all, const std::string& prefix) {
  std::string text;
  for (const Completion& one : all) {
    if (one.word.starts_with(prefix)) {
      text += fmt::format("{}\t{}\n", one.word, in_one_line(one.meaning));
    }
  }
  return text;
}

void add_options_of(const CLI::App& app, std::vector<Completion>& all) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;
    for (const std::string& name : option->get_lnames()) {
      all.push_back({"--" + name, option->get_description()});
    }
    for (const std::string& name : option->get_snames()) {
      all.push_back({"-" + name, option->get_description()});
    }
  }
}

bool takes_value(const CLI::Option* option) {
  return option && !option->get_positional() && option->get_items_expected_max() > 0;
}

bool takes_list(const CLI::Option* option) {
  return option->get_type_name().find("[,") != std::string::npos;
}

/// What an option or positional called `name` may be, if it is `word` so far. Variants
/// ("scenario/variant") are offered once the scenario is complete.
std::vector<Completion> values_of(const Command& command, const std::string& name,
                                  const std::string& word, bool is_list) {
  std::vector<Completion> all;
  const OfferedWords offered = command.offered();
  const auto found = offered.find(name);
  if (found == offered.end()) return all;
  const std::string::size_type comma = is_list ? word.rfind(',') : word.npos;
  const std::string before = comma == word.npos ? "" : word.substr(0, comma + 1);
  const std::vector<std::string> chosen = split(before, ',');
  for (const std::string& value : found->second) {
    const bool is_too_deep = value.find('/') != value.npos && word.find('/') == word.npos;
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), value) != chosen.end();
    if (!is_too_deep && !is_chosen) all.push_back({before + value, ""});
  }
  return all;
}

/// The positional that the last of `words` is; null if there is none.
const CLI::Option* positional_at(const CLI::App& app, const std::vector<std::string>& words) {
  std::size_t place = 0;
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (!words[i].starts_with('-')) {
      ++place;
    } else if (takes_value(app.get_option_no_throw(words[i]))) {
      ++i;
    }
  }
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const bool takes_several = option->get_items_expected_max() > 1;
    if (takes_several || place == 0) return option;
    --place;
  }
  return nullptr;
}

std::string completions_of(const CLI::App& app, const Command& command,
                           const std::vector<std::string>& words) {
  const std::string& word = words.back();
  const auto equals = word.find('=');
  if (word.starts_with("--") && equals != word.npos) {
    const std::string name = word.substr(0, equals);
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (!takes_value(option)) return "";
    auto all = values_of(command, name, word.substr(equals + 1), takes_list(option));
    for (Completion& one : all) one.word.insert(0, name + "=");
    return as_lines(all, word);
  }
  const std::string& last = words[words.size() - 2];
  const CLI::Option* const option = app.get_option_no_throw(last);
  if (words.size() > 2 && takes_value(option)) {
    return as_lines(values_of(command, last, word, takes_list(option)), word);
  }
  if (word.starts_with('-')) {
    std::vector<Completion> all;
    add_options_of(app, all);
    return as_lines(all, word);
  }
  const CLI::Option* const positional = positional_at(app, words);
  if (!positional) return "";
  return as_lines(values_of(command, positional->get_name(), word, false), word);
}

}  // namespace

std::string completions(const CLI::App& app, const Command* command,
                        const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), "--") < words.end() - 1) return "";
  if (command)
    return completions_of(*app.get_subcommand(std::string(command->name)), *command, words);
  const bool asks_for_help = words.size() == 2 && words.front() == "help";
  if (words.size() != 1 && !asks_for_help) return "";
  std::vector<Completion> all;
  for (const CommandName& one : kCommands) {
    all.push_back({std::string(one.name), std::string(one.summary)});
  }
  if (!asks_for_help) add_options_of(app, all);
  return as_lines(all, words.back());
}

std::string completion_script(const std::string& shell, const std::string& program) {
  if (shell == "bash") {
    return fmt::format("# Completions of {0} for bash.\n{1}complete -o default -F _lockstep {0}\n",
                       program, kBash);
  }
  if (shell == "zsh") {
    return fmt::format(
        "#compdef {0}\n# Completions of {0} for zsh.\n{1}\n"
        "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _lockstep \"$@\"\n"
        "else\n  compdef _lockstep {0}\nfi\n",
        program, kZsh);
  }
  if (shell == "fish") {
    return fmt::format(
        "# Completions of {0} for fish.\n{1}\ncomplete -c {0} -f -a '(__lockstep_words)'\n",
        program, kFish);
  }
  throw bad_value("--completion", shell, "bash, zsh or fish");
}

}  // namespace lockstep
