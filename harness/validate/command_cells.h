#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// `--set NAME=A,B`: {NAME} in a command is A, then B.
struct CommandAxis {
  std::string name;
  std::vector<std::string> values;
};

/// "ranks=2,4". Throws Error (usage) if the text is no name with values, or a value comes twice.
CommandAxis command_axis(const std::string& text);

/// A value for each name.
using CommandCell = std::vector<std::pair<std::string, std::string>>;

/// Up to so many cells, all combinations are run; beyond, those that have every pair of values.
inline constexpr std::size_t kMostOfAllCells = 16;

/// One without values if there is no axis.
std::vector<CommandCell> cells_of(const std::vector<CommandAxis>& axes);

/// A command with the values of a cell in place of {NAME}. Other braces stay.
std::vector<std::string> filled(std::vector<std::string> words, const CommandCell& cell);

/// "ranks=2, layout=ddp".
std::string in_words(const CommandCell& cell);

/// "ranks=2-layout=ddp", for a folder; "." without values.
std::string folder_of(const CommandCell& cell);

/// Throws Error (usage) if no command has {NAME} of an axis.
void check_axes(const std::vector<CommandAxis>& axes,
                const std::vector<std::vector<std::string>>& commands);

}  // namespace lockstep
