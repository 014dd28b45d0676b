#include "harness/launch/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

#include "harness/launch/isolated_python.h"
#include "harness/launch/probe.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

/// Which folders of PATH are searched: those that depend on the working folder, too, or not.
enum class FoldersOfPath { all, absolute };

std::string find_on_path(const std::string& name, FoldersOfPath which) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (which == FoldersOfPath::absolute && !fs::path(folder).is_absolute()) continue;
    const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
    if (is_program(program)) return program;
  }
  return {};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// PYTHON of a line "'''exec' PYTHON "$0" "$@"", in quotes or not; empty for other lines.
std::string python_of_shell(std::string_view line) {
  constexpr std::string_view kExec = "'''exec' ";
  constexpr std::string_view kArguments = R"( "$0" "$@")";
  const std::size_t end = line.rfind(kArguments);
  if (!line.starts_with(kExec) || end == line.npos || end < kExec.size()) return {};
  line = line.substr(kExec.size(), end - kExec.size());
  if (line.starts_with('"')) line.remove_prefix(1);
  if (line.ends_with('"')) line.remove_suffix(1);
  const bool is_path = !line.empty() && !line.ends_with(' ') && line.find('"') == line.npos;
  return is_path ? std::string(line) : std::string();
}

/// The interpreter and its arguments from the first line of a Python script; empty for other files.
/// For a long path of Python, installers write "#!/bin/sh" and "'''exec' PYTHON "$0" "$@"" below
/// it.
std::vector<std::string> python_of(const fs::path& script) {
  std::ifstream file(script);
  std::string first;
  std::string second;
  std::getline(file, first);
  std::getline(file, second);
  if (first.starts_with("#!/bin/sh")) {
    const std::string python = python_of_shell(second);
    if (!python.empty()) return {python};
  }
  const bool is_python = first.starts_with("#!") && first.find("python") != first.npos;
  if (!is_python) return {};
  std::vector<std::string> words = words_of(first.substr(2));
  const bool is_by_env = words.size() == 2 && fs::path(words[0]).filename() == "env";
  if (!is_by_env) return words;
  const std::string python = find_installed_program(words[1]);
  return python.empty() ? words : std::vector<std::string>{python};
}

std::vector<std::string> question_for(const std::string& name, const std::string& path) {
  if (name == "torchrun") {
    std::vector<std::string> words = python_of(path);
    if (!words.empty()) {
      return isolated_python(std::move(words),
                             "import importlib.metadata as m; print('torch', m.version('torch'))");
    }
  }
  return {path, "--version"};
}

/// Form of a launcher's answer: `begin`, then `before` in the same line or as the next word, then
/// the version. Hydra is the launcher of MPICH and its descendants.
struct Answer {
  std::string_view begin;
  std::string_view before;
  bool is_number;  ///< the version begins with a digit
  const char* name;
};
constexpr std::array<Answer, 6> kAnswers{
    Answer{"(Open MPI)", "", false, "Open MPI"},
    Answer{"Intel(R) MPI Library", "Version", false, "Intel MPI"},
    Answer{"HYDRA build details:", "Version:", false, "MPICH"},
    Answer{"slurm-wlm", "", true, "Slurm"},
    Answer{"slurm", "", true, "Slurm"},
    Answer{"torch", "", true, "torch"}};

/// The word at the beginning of a text, behind white space; empty: no white space is there.
std::string_view next_word(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  if (begin == 0) return {};
  text.remove_prefix(begin);
  return text.substr(0, text.find_first_of(kSpace));
}

std::string_view behind(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  return at == text.npos ? std::string_view() : text.substr(at + word.size());
}

/// The version in an answer of this form; empty: it has another one.
std::string_view version_in(std::string_view text, const Answer& answer) {
  while (!(text = behind(text, answer.begin)).empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const bool is_there = line.find(answer.before) != line.npos || next_word(text) == answer.before;
    if (!is_there) continue;
    const std::string_view version = next_word(behind(text, answer.before));
    const bool is_number = !version.empty() && version[0] >= '0' && version[0] <= '9';
    if (!version.empty() && (is_number || !answer.is_number)) return version;
  }
  return {};
}

std::string version_in(const std::string& text) {
  constexpr std::size_t kLooked = 16UL * 1024;
  for (const Answer& answer : kAnswers) {
    const std::string_view version = version_in(std::string_view(text).substr(0, kLooked), answer);
    if (!version.empty()) return fmt::format("{} {}", answer.name, version);
  }
  return first_line(text);
}

/// The error of a launcher that failed: Python prints its errors last.
std::string last_words(const std::string& text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  if (end == text.npos) return {};
  const auto newline = text.find_last_of('\n', end);
  return first_line(text.substr(newline == text.npos ? 0 : newline + 1, end + 1));
}

int number(const char* name, const std::string& text, int least, int most) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc() && parsed == end && value >= least && value <= most) return value;
  throw bad_value(name, text,
                  most == std::numeric_limits<int>::max()
                      ? fmt::format("a whole number, at least {}", least)
                      : fmt::format("a whole number from {} to {}", least, most));
}

std::optional<int> number_in(const Environment& environment, const char* name, int least,
                             int most) {
  const char* const text = environment(name);
  return text ? std::optional(number(name, text, least, most)) : std::nullopt;
}

constexpr const char* kTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

/// The tasks of node `node` in Slurm's "2(x3),1": two on each of the first three nodes.
std::optional<int> tasks_on_node(const std::string& tasks, int node) {
  const auto count = [](std::string_view text) {
    return number(kTasksPerNode, std::string(text), 1, std::numeric_limits<int>::max());
  };
  for (std::string_view rest = tasks; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t times = part.find("(x");
    const bool is_repeated = times != part.npos && part.ends_with(')');
    const std::string_view tasks_of_each = part.substr(0, times);
    node -= is_repeated ? count(part.substr(times + 2, part.size() - times - 3)) : 1;
    if (node < 0) return count(tasks_of_each);
  }
  return std::nullopt;
}

std::optional<int> ranks_on_this_machine(const Environment& environment,
                                         const PlacementVariables& variables, int world_size) {
  const char* const slurm = environment(kTasksPerNode);
  const auto node = number_in(environment, "SLURM_NODEID", 0, std::numeric_limits<int>::max());
  const bool is_step = std::string_view(variables.required) == "SLURM_STEP_ID";
  if (is_step && slurm && node) return tasks_on_node(slurm, *node);
  return number_in(environment, variables.local_world_size, 1, world_size);
}

/// A Slurm step that uses PMI sets PMI_RANK as well; hydra also sets the local rank.
bool is_step_with_pmi(const Environment& environment, const PlacementVariables& variables) {
  return std::string_view(variables.rank) == "PMI_RANK" && environment("SLURM_STEP_ID") &&
         !environment(variables.local_rank);
}

void add_collective_place(const Environment& environment, ForeignPlacement& placement) {
  const char* const host = environment("MASTER_ADDR");
  const auto port = number_in(environment, "MASTER_PORT", 1, 65'535);
  if (!host || !port) return;
  placement.host = host;
  placement.port = *port;
  const char* const served = environment("TORCHELASTIC_USE_AGENT_STORE");
  placement.is_served = served && std::string_view(served) == "True";
}

ForeignPlacement placement_of(const PlacementVariables& variables, const Environment& environment) {
  ForeignPlacement placement;
  placement.variables = &variables;
  constexpr int kAny = std::numeric_limits<int>::max();
  const auto world_size = number_in(environment, variables.world_size, 1, kAny);
  if (!world_size) throw unset_variable(variables.world_size, variables.rank);
  placement.world_size = *world_size;
  placement.rank = *number_in(environment, variables.rank, 0, placement.world_size - 1);
  const auto ranks_here = ranks_on_this_machine(environment, variables, placement.world_size);
  placement.local_world_size = ranks_here.value_or(placement.world_size);
  placement.local_rank =
      number_in(environment, variables.local_rank, 0, placement.local_world_size - 1)
          .value_or(placement.rank % placement.local_world_size);
  const char* const job = environment(variables.job);
  placement.job = job ? job : "";
  add_collective_place(environment, placement);
  // Ranks with a given rendezvous address may be on several machines, so the local world size must
  // be known.
  const bool is_place_known = ranks_here || placement.world_size == 1 || placement.host.empty();
  if (!is_place_known) throw unset_variable(variables.local_world_size, "MASTER_ADDR");
  return placement;
}

}  // namespace

Launcher find_launcher(const std::string& name, std::chrono::milliseconds limit) {
  Launcher launcher;
  launcher.path = find_installed_program(name);
  if (launcher.path.empty()) return launcher;
  const Probe asked = probe_program(question_for(name, launcher.path), limit);
  if (asked.end.kind != ExitKind::finished) {
    const std::string words = last_words(asked.output);
    launcher.problem = fmt::format("the query of its version {}{}", exit_in_words(asked.end),
                                   words.empty() ? "" : ": " + words);
  } else {
    launcher.version = version_in(asked.output);
    if (launcher.version.empty()) launcher.problem = "it printed no version";
  }
  return launcher;
}

std::optional<ForeignPlacement> foreign_placement(const Environment& environment) {
  for (const PlacementVariables& variables : kPlacementVariables) {
    if (!environment(variables.rank) || !environment(variables.required)) continue;
    if (!is_step_with_pmi(environment, variables)) return placement_of(variables, environment);
  }
  // Outside a step Slurm's rank has another meaning; torchrun's has none without a world.
  if (environment("RANK")) throw unset_variable("WORLD_SIZE", "RANK");
  return std::nullopt;
}

void forget_foreign_placement() {
  for (const PlacementVariables& variables : kPlacementVariables) {
    // srun needs Slurm's variables about the job to start a step in it.
    if (std::string_view(variables.rank).starts_with("SLURM_")) continue;
    for (const char* const name : {variables.rank, variables.world_size, variables.local_rank,
                                   variables.local_world_size, variables.job}) {
      ::unsetenv(name);
    }
  }
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
}

std::string find_program(const std::string& name) {
  if (name.find('/') == name.npos) return find_on_path(name, FoldersOfPath::all);
  return is_program(name) ? name : std::string();
}

std::string find_installed_program(const std::string& name) {
  return find_on_path(name, FoldersOfPath::absolute);
}

}  // namespace lockstep
