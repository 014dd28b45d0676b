#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "harness/cli/command.h"

namespace CLI {
class FormatterBase;
}

namespace lockstep {

/// What CLI11 calls the group of options that have none.
inline constexpr const char* kOptionsWithoutGroup = "Options";

/// Whether a command reads an environment variable.
bool is_read_by(const Variable& variable, std::string_view command);

/// Whether its usage ends with "-- COMMAND...".
bool takes_command(const CLI::App& app);

/// "Usage: lockstep compare [OPTIONS] TABLE RUN". `name`: of the command with its program.
std::string usage_line(const CLI::App& app, const std::string& name);

/// The text below the options in `PROGRAM --help`: the environment and the exit statuses, in lines
/// of at most `width` columns.
std::string help_footer(std::size_t width);

/// The same in `PROGRAM COMMAND --help`: examples, the command's own environment and exit statuses.
std::string help_footer(const CommandName& command, const std::string& program, std::size_t width);

/// For `CLI::App::formatter`: the text above the footer, in lines of at most `width` columns. If
/// that is narrow, meanings go below the names.
std::shared_ptr<CLI::FormatterBase> help_formatter(std::size_t width);

}  // namespace lockstep
