#include "harness/run/launch_by.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <string>

#include "harness/launch/interruption.h"
#include "harness/launch/launch.h"
#include "harness/launch/launcher.h"
#include "harness/launch/log_tail.h"
#include "harness/plan/reproduce.h"
#include "harness/run/world_exits.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

using namespace std::chrono_literals;

/// Time of a launcher in addition to its ranks: torchrun loads torch, srun waits for nodes.
constexpr std::chrono::milliseconds kStarting = 90s;

std::vector<std::string> command_for(const LauncherCommand& launcher, const PlannedCell& planned,
                                     const fs::path& folder, std::chrono::milliseconds limit) {
  std::vector<std::string> words = launcher.words_for(planned.cell.world_size);
  words.push_back(fs::read_symlink("/proc/self/exe"));
  const std::vector<std::string> arguments = arguments_of(planned);
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::string seconds = fmt::format("{}", std::chrono::duration<double>(limit).count());
  words.insert(words.end(), {"--timeout", seconds, "--cell-folder", fs::absolute(folder),
                             "--cell-repetition", std::to_string(planned.cell.repetition)});
  return words;
}

/// A launcher killed with this process could not clean up.
void become_launcher() {
  forget_foreign_placement();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
}

}  // namespace

std::vector<RankExit> launch_by(const LauncherCommand& launcher, const PlannedCell& planned,
                                const fs::path& folder, std::chrono::milliseconds limit) {
  const fs::path log = folder / "launcher.log";
  LaunchOptions options;
  options.limit = limit + options.grace + kStarting;
  const LaunchedOne launched =
      launch_program(options, command_for(launcher, planned, folder, limit), log, become_launcher);
  if (launched.interruption != 0) {
    if (Interruption::noted() == 0) ::raise(launched.interruption);
    return {};  // the signal is only recorded there
  }
  WorldExits world(folder, planned.cell);
  world.look();
  if (world.is_empty()) {
    throw launcher_started_nothing(launcher.text(), exit_in_words(launched.end), log_tail(log));
  }
  if (const auto size = world.other_world_size()) {
    throw launcher_world_differs(launcher.text(), *size, planned.cell.world_size);
  }
  std::vector<RankExit> exits = world.exits("its launcher reported nothing about it");
  world.tell_whom_the_launcher_ended(exits);
  return exits;
}

}  // namespace lockstep
