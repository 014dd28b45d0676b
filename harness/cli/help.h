#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <cstddef>
#include <string>

#include "harness/cli/command.h"

namespace lockstep {

/// What stands below the options in `PROGRAM --help`: the environment and the exit statuses, in
/// lines of at most `width` columns.
std::string help_footer(std::size_t width);

/// The same in `PROGRAM COMMAND --help`: examples, the command's own environment and exit statuses.
std::string help_footer(const CommandName& command, const std::string& program, std::size_t width);

/// `--help` in lines of at most `width` columns; where they are few, below each name what it means.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::size_t width) : width_(width) {}

  std::string make_description(const CLI::App* app) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;

 private:
  std::string entry(const std::string& name, const std::string& meaning) const;

  std::size_t width_;
};

}  // namespace lockstep
