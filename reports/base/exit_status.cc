#include "reports/base/exit_status.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// Of the statuses of `command`; empty: of all.
std::string order(std::string_view command = "") {
  std::string text;
  for (const ExitStatus status : kFromWorst) {
    const bool is_of_it =
        command.empty() ||
        std::any_of(kCommandExits.begin(), kCommandExits.end(), [&](const CommandExit& entry) {
          return entry.command == command && entry.status == status;
        });
    if (!is_of_it) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", static_cast<int>(status));
  }
  return fmt::format("If several apply, the status is the first of {}.", text);
}

/// "    0  everything as expected"
std::string row(ExitStatus status, std::string_view meaning, std::size_t width) {
  constexpr std::size_t kIndent = 7;
  const std::string number = fmt::format("{:>{}}  ", static_cast<int>(status), kIndent - 2);
  return wrapped(std::string(meaning), kIndent, 0, width).replace(0, kIndent, number);
}

}  // namespace

ExitStatus exit_status(Error::Kind kind) {
  static_assert(static_cast<int>(Error::Kind::unmet) == static_cast<int>(ExitStatus::failed));
  static_assert(static_cast<int>(Error::Kind::machine) == static_cast<int>(ExitStatus::undecided));
  static_assert(static_cast<int>(Error::Kind::usage) == static_cast<int>(ExitStatus::usage));
  static_assert(static_cast<int>(Error::Kind::internal) == static_cast<int>(ExitStatus::defect));
  return static_cast<ExitStatus>(kind);
}

ExitStatus exit_status_of_signal(int signal) {
  return signal == SIGINT ? ExitStatus::interrupted : ExitStatus::terminated;
}

ExitStatus worse(ExitStatus a, ExitStatus b) {
  return *std::find_if(kFromWorst.begin(), kFromWorst.end(),
                       [&](ExitStatus status) { return status == a || status == b; });
}

std::string exit_statuses_as_text(std::size_t width) {
  std::string text = "Exit status:\n";
  for (const auto& [status, meaning] : kExitMeanings) text += row(status, meaning, width);
  return text + wrapped(order(), 2, 0, width);
}

std::string exit_statuses_of(std::string_view command, std::size_t width) {
  std::string text = "Exit status:\n";
  for (const CommandExit& entry : kCommandExits) {
    if (entry.command != command) continue;
    text += row(entry.status, entry.meaning, width);
  }
  const bool has_several = command == "run" || command == "report";
  return has_several ? text + wrapped(order(command), 2, 0, width) : text;
}

}  // namespace lockstep
