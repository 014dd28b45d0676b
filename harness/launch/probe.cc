#include "harness/launch/probe.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <sstream>

#include "harness/launch/rank_process.h"
#include "harness/launch/supervisor.h"
#include "reports/base/unique_fd.h"

namespace lockstep {
namespace {

constexpr std::size_t kMostOutput = 64UL * 1024;
constexpr rlim_t kMostWritten = 16UL * 1024 * 1024;

void lower_limit(__rlimit_resource resource, rlim_t limit) {
  rlimit both{};
  if (::getrlimit(resource, &both) != 0 || both.rlim_cur <= limit) return;
  both.rlim_cur = limit;
  ::setrlimit(resource, &both);
}

std::string beginning_of(int file) {
  std::string text(kMostOutput, '\0');
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

/// Returns the signal that asked this process to end meanwhile, or 0.
int run_in_child(const std::function<int()>& body, std::chrono::milliseconds limit, int output,
                 RankExit& end) {
  LaunchOptions options;
  options.limit = limit;
  Supervisor supervisor(options);
  RankFiles files;
  files.logs.emplace_back(::dup(output));
  const pid_t pid =
      files.logs.front().valid()
          ? start_rank(RankPlacement{}, 0, files, [&](const RankPlacement&) { return body(); })
          : -1;
  if (pid > 0) {
    supervisor.add(pid);
  } else {
    supervisor.give_up_starting(::strerror(errno));
  }
  const int interruption = supervisor.wait();
  end = supervisor.take_ends().front();
  return interruption;
}

}  // namespace

Probe probe(const std::function<int()>& body, std::chrono::milliseconds limit) {
  const UniqueFd output(::memfd_create("lockstep-probe", MFD_CLOEXEC));
  const auto harmless_body = [&] {
    lower_limit(RLIMIT_CORE, 0);
    lower_limit(RLIMIT_FSIZE, kMostWritten);
    return body();
  };
  Probe probe;
  const int interruption = run_in_child(harmless_body, limit, output.get(), probe.end);
  probe.output = beginning_of(output.get());
  if (interruption != 0) ::raise(interruption);
  return probe;
}

int become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  std::fputs(::strerror(errno), stderr);
  return 127;
}

Probe probe_program(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  return probe([&] { return become(words); }, limit);
}

std::string first_line(const std::string& text) {
  constexpr const char* kSpace = " \t\r\f\v";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(kSpace);
    if (begin != std::string::npos) {
      return line.substr(begin, line.find_last_not_of(kSpace) - begin + 1);
    }
  }
  return {};
}

}  // namespace lockstep
