#include "harness/launch/supervisor.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "harness/launch/interruption.h"

namespace lockstep {
namespace {

/// Polls are a tenth of a second apart.
constexpr std::chrono::milliseconds kLateLook{500};
/// A process in an uninterruptible call, as that of a driver, does not stop before its end.
constexpr std::chrono::milliseconds kLongestStop{500};

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{} s", std::chrono::duration<double>(time).count());
}

/// waitid without waiting or reaping: `si_pid` is 0 if there is no news.
siginfo_t look_at(pid_t pid, int options) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, options | WNOHANG | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  return info;
}

bool has_ended(pid_t pid) { return look_at(pid, WEXITED).si_pid == pid; }

bool is_still(pid_t pid) { return look_at(pid, WSTOPPED | WEXITED).si_pid == pid; }

/// Kills process groups, given by their leaders. All stand still before the first is killed, so
/// that none sees its peers go and records it, however late this process comes to the next one.
void kill_together(const std::vector<pid_t>& leaders) {
  for (const pid_t pid : leaders) ::kill(-pid, SIGSTOP);
  const auto last_moment = std::chrono::steady_clock::now() + kLongestStop;
  while (!std::all_of(leaders.begin(), leaders.end(), is_still) &&
         std::chrono::steady_clock::now() < last_moment) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const pid_t pid : leaders) ::kill(-pid, SIGKILL);
}

}  // namespace

Supervisor::Supervisor(const LaunchOptions& options, std::chrono::milliseconds clean_up)
    : limit_(options.limit),
      grace_(options.grace),
      clean_up_(clean_up),
      last_moment_(Clock::now() + options.limit),
      silence_(options.silence.value_or(options.limit)),
      heard_(Clock::now()),
      looked_(heard_),
      progress_(options.progress),
      look_at_peers_(options.look_at_peers),
      exits_(static_cast<std::size_t>(options.ranks)) {
  pids_.reserve(exits_.size());
  for (std::size_t rank = 0; rank < exits_.size(); ++rank)
    exits_[rank].rank = static_cast<int>(rank);
}

Supervisor::~Supervisor() {
  end_rest({});
  descendants_.end_all();
}

void Supervisor::add(pid_t pid) { pids_.push_back(pid); }

void Supervisor::give_up_starting(const std::string& why) {
  const std::size_t started = pids_.size();
  end_rest(
      {ExitCause::peer_failed, fmt::format("ended because rank {} could not be started", started)});
  pids_.resize(exits_.size());
  for (std::size_t rank = started; rank < exits_.size(); ++rank) {
    note_end(rank, ExitKind::unstarted, 0, {ExitCause::none, why});
  }
}

int Supervisor::wait() {
  // From before the signals were watched.
  if (Interruption::noted() != 0) end_interrupted(Interruption::noted());
  while (ended_ < static_cast<int>(exits_.size())) {
    const auto signal = signals_.next(next_look());
    if (!signal) look_at_progress();
    if (!signal && Clock::now() < deadline()) {
      look_at_peers();
    } else if (!signal) {
      collect(0);
      end_late();
    } else if (signal->si_signo == SIGCHLD) {
      collect(signal->si_pid);
    } else {
      end_interrupted(signal->si_signo);
    }
  }
  return interruption_;
}

void Supervisor::end_interrupted(int signal) {
  interruption_ = signal;
  end_rest({ExitCause::interrupted, "interrupted by " + signal_name(signal)});
}

Supervisor::Clock::time_point Supervisor::next_look() const {
  constexpr std::chrono::milliseconds kBetween{100};
  const bool is_looked = look_at_peers_ || progress_;
  return is_looked ? std::min(deadline(), Clock::now() + kBetween) : deadline();
}

Supervisor::Clock::time_point Supervisor::deadline() const {
  return std::min(last_moment_, heard_ + silence_);
}

void Supervisor::look_at_progress() {
  if (!progress_) return;
  const auto now = Clock::now();
  const std::uint64_t reached = progress_();
  // After a late poll the machine was suspended or had no time for this process. Then the ranks had
  // none either.
  if (now - looked_ > kLateLook) heard_ += now - looked_;
  if (reached != reached_) heard_ = now;
  reached_ = reached;
  looked_ = now;
}

void Supervisor::look_at_peers() {
  if (!look_at_peers_) return;
  const PeerState seen = look_at_peers_();
  if (!seen.end_now.empty()) return end_rest({ExitCause::none, seen.end_now});
  if (seen.failed_rank && !hurried_by_) hurry(*seen.failed_rank);
}

/// Several exits cause one signal, which carries the first one's pid. That one is recorded first,
/// so the order shows which rank began.
void Supervisor::collect(pid_t first) {
  const auto found = std::find(pids_.begin(), pids_.end(), first);
  if (first != 0 && found != pids_.end()) {
    collect_rank(static_cast<std::size_t>(found - pids_.begin()));
  }
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) collect_rank(rank);
}

void Supervisor::collect_rank(std::size_t rank) {
  if (pids_[rank] != 0 && has_ended(pids_[rank])) note_status(rank, reap(rank));
}

/// Kills the rest of the rank's process group. Until the rank is reaped, its number cannot be
/// reused.
int Supervisor::reap(std::size_t rank) {
  const pid_t pid = std::exchange(pids_[rank], 0);
  ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void Supervisor::note_end(std::size_t rank, ExitKind ending, int code, Reason reason) {
  RankExit& end = exits_[rank];
  end.kind = ending;
  end.cause = reason.cause;
  end.code = code;
  end.detail = std::move(reason.detail);
  end.order = ended_++;
  end.ended_ns = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

void Supervisor::note_status(std::size_t rank, int status) {
  if (WIFSIGNALED(status)) {
    note_end(rank, ExitKind::signalled, WTERMSIG(status),
             {ExitCause::none, signal_name(WTERMSIG(status))});
  } else {
    const int code = WEXITSTATUS(status);
    note_end(rank, code == 0 ? ExitKind::finished : ExitKind::exited, code, {});
  }
  if (status != 0) hurry(static_cast<int>(rank));
}

void Supervisor::hurry(int failed_rank) {
  const auto now = Clock::now();
  if (now + grace_ >= deadline()) return;
  hurried_by_ = failed_rank;
  heard_ = now;
  silence_ = grace_;
}

void Supervisor::end_late() {
  if (last_moment_ <= heard_ + silence_) {
    return end_rest({ExitCause::time_limit, "limit of " + seconds(limit_)});
  }
  if (hurried_by_) {
    return end_rest({ExitCause::peer_failed,
                     fmt::format("ended {} after rank {} failed", seconds(grace_), *hurried_by_)});
  }
  end_rest({ExitCause::no_progress, "no progress for " + seconds(silence_)});
}

bool Supervisor::is_any_left() const {
  return std::any_of(pids_.begin(), pids_.end(),
                     [](pid_t pid) { return pid != 0 && !has_ended(pid); });
}

void Supervisor::ask_rest_to_end() {
  const auto begin = Clock::now();
  for (const pid_t pid : pids_) {
    if (pid != 0) ::kill(pid, SIGTERM);
  }
  while (is_any_left() && Clock::now() < begin + clean_up_) {
    const auto signal = signals_.next(begin + clean_up_);
    if (!signal || signal->si_signo == SIGCHLD) continue;
    const bool is_urged = interruption_ != 0 && Clock::now() >= begin + kSameInterruption;
    interruption_ = signal->si_signo;
    if (is_urged) return;
  }
}

void Supervisor::end_rest(const Reason& reason) {
  if (clean_up_ > clean_up_.zero()) ask_rest_to_end();
  std::vector<std::pair<std::size_t, Reason>> rest;
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] == 0) continue;
    const siginfo_t stop = look_at(pids_[rank], WSTOPPED);
    const bool is_stopped = stop.si_pid != 0;
    rest.emplace_back(
        rank, is_stopped ? Reason{ExitCause::stopped, "stopped by " + signal_name(stop.si_status)}
                         : reason);
  }
  std::vector<pid_t> leaders = pids_;
  std::erase(leaders, 0);
  kill_together(leaders);
  for (const auto& [rank, why] : rest) {
    reap(rank);
    note_end(rank, ExitKind::unfinished, 0, why);
    const bool is_silent = why.cause == ExitCause::no_progress;
    if (!is_silent && why.cause != ExitCause::time_limit) continue;
    exits_[rank].limit_s = std::chrono::duration<double>(is_silent ? silence_ : limit_).count();
  }
}

}  // namespace lockstep
