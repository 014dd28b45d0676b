#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "harness/cli/command.h"

namespace CLI {
class FormatterBase;
}

namespace lockstep {

/// What stands below the options in `PROGRAM --help`: the environment and the exit statuses, in
/// lines of at most `width` columns.
std::string help_footer(std::size_t width);

/// The same in `PROGRAM COMMAND --help`: examples, the command's own environment and exit statuses.
std::string help_footer(const CommandName& command, const std::string& program, std::size_t width);

/// For `CLI::App::formatter`: what stands above, in lines of at most `width` columns; where they
/// are few, below each name what it means.
std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width);

}  // namespace lockstep
