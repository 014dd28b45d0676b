#include "harness/run/cell_process.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "harness/launch/launch.h"
#include "harness/record/whole_file.h"
#include "reports/base/error.h"
#include "reports/record/json.h"

namespace lockstep {

namespace {

/// First word of a successful result; an error starts with its own word and its kind.
constexpr std::string_view kRecord = "record\n";
constexpr std::string_view kError = "error ";

std::string record_text(CellRecord record) {
  RunRecord run;
  run.cells.push_back(std::move(record));
  return std::string(kRecord) + render_json(run);
}

std::string error_text(Error::Kind kind, const std::string& text) {
  return fmt::format("{}{}\n{}", kError, static_cast<int>(kind), text);
}

std::string outcome_of(const std::function<CellRecord()>& run) {
  try {
    return record_text(run());
  } catch (...) {
    const Error error = caught_error();
    return error_text(error.kind(), error.what());
  }
}

std::string read_outcome(int file) {
  std::string text;
  char part[65536];
  for (off_t at = 0;;) {
    const ssize_t size = ::pread(file, part, sizeof part, at);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(part, static_cast<std::size_t>(size));
    at += size;
  }
}

/// If SIGTERM is ignored, the process could not be asked to end.
int signal_of_death() {
  struct sigaction action {};
  ::sigaction(SIGTERM, nullptr, &action);
  return action.sa_handler == SIG_IGN ? SIGKILL : SIGTERM;
}

[[noreturn]] void be_cell(const std::function<CellRecord()>& run, int outcome,
                          pid_t parent) noexcept {
  // Not SIGKILL, because it must end its ranks and their children.
  ::prctl(PR_SET_PDEATHSIG, signal_of_death());
  // The parent may have ended before the line above.
  if (::getppid() != parent) ::_exit(1);
  ::_exit(write_all(outcome, outcome_of(run)) ? 0 : 1);
}

CellRecord record_in(const std::string& text) {
  if (text.starts_with(kRecord)) {
    return read_json(text.substr(kRecord.size()), "the record of a cell").cells.at(0);
  }
  const std::size_t line = text.find('\n');
  throw Error(static_cast<Error::Kind>(std::stoi(text.substr(kError.size()))),
              text.substr(line + 1));
}

std::string end_in_words(int status) {
  return WIFSIGNALED(status) ? "was killed by " + signal_name(WTERMSIG(status))
                             : fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace

CellProcess::CellProcess(const std::function<CellRecord()>& run)
    : outcome_(::memfd_create("lockstep-cell", MFD_CLOEXEC)) {
  if (!outcome_.valid()) throw no_process(::strerror(errno));
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) be_cell(run, outcome_.get(), parent);
  if (pid_ < 0) throw no_process(::strerror(errno));
}

CellProcess::CellProcess(CellProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), outcome_(std::move(other.outcome_)) {}

/// When asked, it ends its ranks and their children; if it does not, it is killed.
CellProcess::~CellProcess() {
  if (pid_ <= 0) return;
  constexpr std::chrono::seconds kPatience{5};
  constexpr useconds_t kBetween = 10'000;
  ::kill(pid_, SIGTERM);
  const auto begin = std::chrono::steady_clock::now();
  while (!has_ended() && std::chrono::steady_clock::now() < begin + kPatience) ::usleep(kBetween);
  ::kill(pid_, SIGKILL);
  reap();
}

bool CellProcess::has_ended() const {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  return info.si_pid == pid_;
}

void CellProcess::leave_to_parent() { outcome_ = {}; }

void CellProcess::interrupt(int signal) const { ::kill(pid_, signal); }

int CellProcess::reap() {
  const pid_t pid = std::exchange(pid_, 0);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

CellRecord CellProcess::take() {
  const int status = reap();
  const std::string text = read_outcome(outcome_.get());
  const bool is_whole = text.starts_with(kRecord) || text.starts_with(kError);
  if (status != 0 || !is_whole) throw cell_process_ended(end_in_words(status));
  return record_in(text);
}

}  // namespace lockstep
