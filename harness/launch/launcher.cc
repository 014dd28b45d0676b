#include "harness/launch/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <vector>

#include "harness/launch/probe.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string find_on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return {};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

/// The interpreter in the first line of a Python script, with its arguments; empty for all else.
/// Installers write a long path of Python as "#!/bin/sh" and "'''exec' PYTHON "$0" "$@"" below it.
std::vector<std::string> python_of(const fs::path& script) {
  static const std::regex long_path(R"re('''exec' "?([^"]*[^" ])"? "\$0" "\$@".*)re");
  std::ifstream file(script);
  std::string first;
  std::string second;
  std::getline(file, first);
  std::getline(file, second);
  std::smatch match;
  if (first.starts_with("#!/bin/sh") && std::regex_match(second, match, long_path)) {
    return {match[1]};
  }
  const bool is_python = first.starts_with("#!") && first.find("python") != first.npos;
  return is_python ? words_of(first.substr(2)) : std::vector<std::string>{};
}

std::vector<std::string> question_for(const std::string& name, const std::string& path) {
  if (name == "torchrun") {
    std::vector<std::string> words = python_of(path);
    if (!words.empty()) {
      words.insert(words.end(),
                   {"-c", "import importlib.metadata as m; print('torch', m.version('torch'))"});
      return words;
    }
  }
  return {path, "--version"};
}

/// What the answers of launchers look like. Hydra is the launcher of MPICH and of its descendants.
struct Answer {
  const char* pattern;
  const char* name;
};
constexpr std::array<Answer, 5> kAnswers{
    Answer{R"(\(Open MPI\)\s+(\S+))", "Open MPI"},
    Answer{R"(Intel\(R\) MPI Library[^\n]*Version\s+(\S+))", "Intel MPI"},
    Answer{R"(HYDRA build details:\s+Version:\s+(\S+))", "MPICH"},
    Answer{R"(slurm(?:-wlm)?\s+(\d\S*))", "Slurm"}, Answer{R"(torch\s+(\d\S*))", "torch"}};

std::string version_in(const std::string& text) {
  for (const Answer& answer : kAnswers) {
    std::smatch match;
    if (std::regex_search(text, match, std::regex(answer.pattern))) {
      return fmt::format("{} {}", answer.name, match[1].str());
    }
  }
  return first_line(text);
}

/// What a launcher that failed said about it: Python's errors stand at the end.
std::string last_words(const std::string& text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  if (end == text.npos) return {};
  const auto newline = text.find_last_of('\n', end);
  return first_line(text.substr(newline == text.npos ? 0 : newline + 1, end + 1));
}

struct Variables {
  const char* launcher;
  const char* rank;
  const char* required;  ///< stands beside `rank`, or the rank means something else
  const char* world_size;
};
constexpr std::array<Variables, 4> kVariables{
    Variables{"torchrun", "RANK", "WORLD_SIZE", "WORLD_SIZE"},
    Variables{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK",
              "OMPI_COMM_WORLD_SIZE"},
    Variables{"MPICH's mpirun", "PMI_RANK", "PMI_RANK", "PMI_SIZE"},
    Variables{"srun", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_NTASKS"}};

}  // namespace

Launcher find_launcher(const std::string& name, std::chrono::milliseconds limit) {
  Launcher launcher;
  launcher.path = find_on_path(name);
  if (launcher.path.empty()) return launcher;
  const Probe asked = probe_program(question_for(name, launcher.path), limit);
  if (asked.end.ending != Ending::finished) {
    const std::string words = last_words(asked.output);
    launcher.problem = fmt::format("asked for its version it {}{}", how(asked.end),
                                   words.empty() ? "" : ": " + words);
  } else {
    launcher.version = version_in(asked.output);
    if (launcher.version.empty()) launcher.problem = "asked for its version it said nothing";
  }
  return launcher;
}

std::optional<ForeignSeat> foreign_seat(const Environment& environment) {
  for (const Variables& variables : kVariables) {
    const char* const rank = environment(variables.rank);
    if (!rank || !environment(variables.required)) continue;
    const char* const world_size = environment(variables.world_size);
    return ForeignSeat{variables.launcher, rank, world_size ? world_size : ""};
  }
  return std::nullopt;
}

}  // namespace lockstep
