// The main function of a test program whose start costs more than most of its tests. With --forked,
// each test runs in a child, forked from a process that has run none, so tests share the start and
// nothing else.
//
//   PROGRAM [--forked[=N]] [--gtest_filter=...]   N children at a time (default: number of cores)
//
// With --forked, it shows the output of tests that do not pass, and the names of those that skip
// themselves.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/cli/start_variables.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kLimit{3};  // of one test

/// Runs `body` in a child with its output in `log`, in a process group of its own.
pid_t fork_into(const std::filesystem::path& log, const std::function<int()>& body) {
  std::cout << std::flush;
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool is_open = std::freopen(log.c_str(), "w", stdout) != nullptr;
  if (!is_open || ::dup2(STDOUT_FILENO, STDERR_FILENO) < 0) ::_exit(101);
  const int status = body();
  std::cout << std::flush;
  std::fflush(nullptr);
  ::_exit(status);  // to take torch's libraries down costs more than most tests
}

/// "Suite.Test" of each test that the filter selects, as GoogleTest lists them.
std::vector<std::string> selected_tests() {
  const TemporaryFolder folder;
  const pid_t pid = fork_into(folder.path() / "list", [] {
    GTEST_FLAG_SET(list_tests, true);
    return RUN_ALL_TESTS();
  });
  ::waitpid(pid, nullptr, 0);
  std::vector<std::string> names;
  std::string suite;
  for (const std::string& line : lines_of(text_if_there(folder.path() / "list"))) {
    const std::string_view word = std::string_view(line).substr(0, line.find("  #"));
    if (line.starts_with("  ")) {
      names.push_back(suite + std::string(word.substr(2)));
    } else {
      suite = word;
    }
  }
  return names;
}

struct RunningTest {
  std::string name;
  std::filesystem::path log;
  pid_t pid = -1;
  Clock::time_point end = Clock::now() + kLimit;
};

class ForkedTests {
 public:
  int run(std::vector<std::string> names, std::size_t jobs) {
    const std::size_t count = names.size();
    std::reverse(names.begin(), names.end());
    while (!names.empty() || !running_.empty()) {
      while (!names.empty() && running_.size() < jobs) {
        start(names.back());
        names.pop_back();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::erase_if(running_, [&](const RunningTest& test) { return has_ended(test); });
    }
    std::cout << fmt::format("{} tests, each in its own process: {} failed, {} skipped\n", count,
                             failed_, skipped_);
    return count == 0 || failed_ > 0 ? 1 : 0;
  }

 private:
  void start(const std::string& name) {
    RunningTest& test = running_.emplace_back();
    test.name = name;
    test.log = folder_.path() / std::to_string(++started_);
    test.pid = fork_into(test.log, [&name] {
      GTEST_FLAG_SET(filter, name);
      return RUN_ALL_TESTS();
    });
  }

  bool has_ended(const RunningTest& test) {
    int status = 0;
    const bool is_late = Clock::now() > test.end;
    if (is_late) ::kill(-test.pid, SIGKILL);
    if (::waitpid(test.pid, &status, is_late ? 0 : WNOHANG) == 0) return false;
    const std::string text = text_if_there(test.log);
    const bool is_skipped = text.find("[  SKIPPED ]") != std::string::npos;
    const bool has_run = is_skipped || text.find("[  PASSED  ] 1 test.") != std::string::npos;
    const bool has_passed = has_run && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    failed_ += has_passed ? 0 : 1;
    skipped_ += is_skipped ? 1 : 0;
    if (!has_passed || is_skipped) {
      std::cout << text;
      if (is_late) std::cout << "It did not end within " << kLimit.count() << " minutes.\n";
      if (WIFSIGNALED(status)) std::cout << "It was killed by signal " << WTERMSIG(status) << ".\n";
      std::cout << fmt::format("[  {} ] {}\n", has_passed ? "SKIPPED" : "FAILED ", test.name)
                << std::flush;
    }
    std::filesystem::remove(test.log);
    return true;
  }

  const TemporaryFolder folder_;
  std::list<RunningTest> running_;
  int started_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
};

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::remove_start_variables();
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--forked")) continue;
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    const std::size_t jobs = word == "--forked" ? cores : std::strtoul(argv[i] + 9, nullptr, 10);
    return lockstep::ForkedTests().run(lockstep::selected_tests(), std::max<std::size_t>(1, jobs));
  }
  return RUN_ALL_TESTS();
}
