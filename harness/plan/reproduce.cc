#include "harness/plan/reproduce.h"

#include <cerrno>  // program_invocation_short_name

#include "reports/base/shell_word.h"

namespace lockstep {

std::vector<std::string> arguments_of(const PlannedCell& planned) {
  const Cell& cell = planned.cell;
  std::vector<std::string> words{"run", cell.scenario + "/" + cell.variant, "--ranks",
                                 std::to_string(cell.world_size)};
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  if (cell.steps != planned.scenario->steps) add("--steps", std::to_string(cell.steps));
  if (cell.seed != 0) add("--seed", std::to_string(cell.seed));
  if (cell.backend != Cell().backend) add("--backend", std::string(name(cell.backend)));
  if (cell.device != planned.scenario->devices.front())
    add("--device", std::string(name(cell.device)));
  if (cell.collectives != Collectives::log) {
    add("--collectives", std::string(name(cell.collectives)));
  }
  for (const AxisValue& chosen : unusual_choices(cell)) {
    add("--set", chosen.axis + "=" + chosen.value);
  }
  return words;
}

std::string reproducing_command(const PlannedCell& planned, const std::string& launcher) {
  std::string command = shell_word(program_invocation_short_name);
  for (const std::string& word : arguments_of(planned)) command += " " + word;
  return launcher.empty() ? command : command + " --launcher " + shell_word(launcher);
}

}  // namespace lockstep
