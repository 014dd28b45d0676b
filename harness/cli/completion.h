#pragma once

#include <string>
#include <vector>

#include "harness/cli/command.h"

namespace CLI {
class App;
}

namespace lockstep {

/// With it a shell asks for completions: `lockstep --complete run lo`.
inline constexpr const char* kComplete = "--complete";

/// Completions of the last of `words`, the words of a command line behind the program: commands,
/// options and what options take. `command`: that of the first word; null if it is none or that
/// word is still incomplete. A line each: the word, a tab, and its meaning. Nothing where files are
/// to be offered.
std::string completions(const CLI::App& app, const Command* command,
                        const std::vector<std::string>& words);

/// The script that makes `shell`, bash, zsh or fish, ask the program called `program`. Throws Error
/// (usage) for another shell.
std::string completion_script(const std::string& shell, const std::string& program);

}  // namespace lockstep
