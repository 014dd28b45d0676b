#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/base/exit_status.h"

namespace CLI {
class App;
}

namespace lockstep {

/// A command of the command line, as `--help` names it.
struct CommandName {
  std::string_view name;
  std::string_view summary;
};

/// All of them, in the order of `--help`.
inline constexpr std::array<CommandName, 6> kCommands{
    CommandName{"list", "List the scenarios"},
    {"show", "Say everything about one scenario"},
    {"run", "Run scenarios on real ranks, judge and report them"},
    {"report", "Judge a run's files again and show the report"},
    {"compare", "Hold a published table against a run, to the printed digit"},
    {"doctor", "Say what is here, what is missing, and whether 'run' can work"}};

/// What a program does for one of `kCommands`.
struct Command {
  std::string_view name;
  /// Adds the options, of which `run` then has the values.
  std::function<void(CLI::App&)> add_options;
  std::function<ExitStatus()> run;
  bool has_status_table = true;  ///< `--help` of the command shows the exit statuses
};

}  // namespace lockstep
