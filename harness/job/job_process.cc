#include "harness/job/job_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>
#include <string_view>

#include "harness/launch/interruption.h"
#include "harness/launch/launcher.h"
#include "reports/base/error.h"

extern char** environ;

namespace lockstep {

namespace {

constexpr int kPollMilliseconds = 50;

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced = std::any_of(variables.begin(), variables.end(),
                                         [&](const auto& one) { return one.first == name; });
    if (!is_replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : variables) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A command without a folder is searched where its own variables say.
std::string program_of(const std::string& command,
                       const std::vector<std::pair<std::string, std::string>>& variables) {
  const auto path =
      std::ranges::find_if(variables, [](const auto& one) { return one.first == "PATH"; });
  if (path == variables.end() || command.find('/') != command.npos) return command;
  std::istringstream folders(path->second);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = fmt::format("{}/{}", folder, command);
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return command;
}

/// The words of a command that runs in `folder`: only newer systems have a function of their own to
/// start a process elsewhere. `program`: as `program_of` found it. Throws Error (usage) without it.
std::vector<std::string> words_in(const std::filesystem::path& folder, const std::string& program,
                                  const std::vector<std::string>& command) {
  const bool has_folder = program.find('/') != program.npos;
  const std::string file = has_folder ? (folder / program).string() : find_program(program);
  if (file.empty() || ::access(file.c_str(), X_OK) != 0) {
    throw cannot_start(command.front(), std::strerror(file.empty() ? ENOENT : errno));
  }
  std::vector<std::string> words{"/usr/bin/env", "-C", folder.string(), program};
  words.insert(words.end(), command.begin() + 1, command.end());
  return words;
}

/// What a new process does before its program starts.
class SpawnActions {
 public:
  explicit SpawnActions(const JobPlace& place) {
    ::posix_spawn_file_actions_init(&actions_);
    if (!place.output.empty()) {
      ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, place.output.c_str(),
                                         O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    }
  }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// Whether a signal typed on the terminal reaches the job as well as this process.
bool shares_terminal() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::tcgetpgrp(descriptor) == ::getpgrp()) return true;
  }
  return false;
}

}  // namespace

JobProcess::JobProcess(const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& variables,
                       const JobPlace& place) {
  std::vector<std::string> environment = environment_with(variables);
  std::string program = program_of(command.front(), variables);
  std::vector<std::string> words = command;
  if (!place.folder.empty()) {
    words = words_in(place.folder, program, command);
    program = words.front();
  }
  const SpawnActions actions(place);
  const int failure = ::posix_spawnp(&pid_, program.c_str(), actions.get(), nullptr,
                                     pointers_to(words).data(), pointers_to(environment).data());
  if (failure != 0) {
    throw cannot_start(command.front(), std::strerror(failure));
  }
}

void JobProcess::terminate() const { ::kill(pid_, SIGTERM); }

void JobProcess::pass_on_signal() {
  const int noted = Interruption::noted();
  if (noted == 0 || has_passed_on_) return;
  has_passed_on_ = true;
  if (noted != SIGINT || !shares_terminal()) ::kill(pid_, noted);
}

JobEnd JobProcess::wait_for_cleanup() {
  has_passed_on_ = true;
  return wait([] {});
}

JobEnd JobProcess::wait(const std::function<void()>& meanwhile) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    const int interrupted_by = Interruption::noted();
    if (ended == pid_ && WIFEXITED(status)) return {WEXITSTATUS(status), interrupted_by};
    if (ended == pid_ && WIFSIGNALED(status)) return {128 + WTERMSIG(status), interrupted_by};
    pass_on_signal();
    meanwhile();
    ::poll(nullptr, 0, kPollMilliseconds);
  }
}

}  // namespace lockstep
