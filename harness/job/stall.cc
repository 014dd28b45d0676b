#include "harness/job/stall.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "harness/record/rank_files.h"
#include "harness/record/rank_stack.h"
#include "harness/record/stalled_calls.h"
#include "reports/record/stack_frame.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr int kSignal = 9;  ///< after SIGRTMIN: a process without a free thread writes its stacks

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// What /proc says of a process; empty: there is none.
std::string proc(pid_t pid, const char* name) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name));
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

/// The state letter of a process; 0: there is none.
char state_of(pid_t pid) {
  const std::string status = proc(pid, "stat");
  const std::size_t name = status.rfind(')');
  return name == status.npos || name + 2 >= status.size() ? '\0' : status[name + 2];
}

/// Whether a process is watched, and not another one that has the number of one that ended.
bool is_of_job(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str().find("LOCKSTEP_WATCH_FOLDER=") < std::string::npos;
}

std::string stacks_of(const fs::path& folder, int rank) {
  std::ifstream file(rank_file(folder, rank, kStacksEnding));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

StalledState state_of(const WatchedProgress& progress, bool has_answered) {
  if (has_answered) return StalledState::answered;
  if (progress.has_ended) return StalledState::ended;
  if (!is_alive(progress)) return StalledState::gone;
  return is_stopped(progress) ? StalledState::stopped : StalledState::silent;
}

/// Where a process is that cannot say so itself, and wrote no stack.
std::string place_in_system(pid_t pid) {
  const std::string channel = proc(pid, "wchan");
  return channel.empty() || channel == "0" ? "native code"
                                           : fmt::format("native code, which waits in {}", channel);
}

/// "no progress for 300 s, in load_next_batch, train.py:6".
std::string in_words(const Stall& stall, const StalledRank& rank) {
  const std::string where = rank.place.empty() ? "" : ", in " + rank.place;
  switch (rank.state) {
    case StalledState::answered:
      return fmt::format("no progress for {:.3g} s{}", stall.limit_s, where);
    case StalledState::silent:
      return fmt::format("no progress for {:.3g} s, and its hook did not answer{}", stall.limit_s,
                         where);
    case StalledState::stopped:
      return "its process was stopped by a signal";
    case StalledState::gone:
      return "its process was gone";
    case StalledState::ended:
      return "";
    case StalledState::absent:
      return "it never came to torch.distributed";
  }
  return "";
}

}  // namespace

std::vector<StackFrame> frames_in(std::string_view stacks) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  std::vector<StackFrame> frames;
  while (!stacks.empty()) {
    const std::string_view line = stacks.substr(0, stacks.find('\n'));
    stacks.remove_prefix(std::min(line.size() + 1, stacks.size()));
    const std::size_t file = line.find(kFile);
    if (file == line.npos) continue;
    // A path may hold quotes; a function does not.
    const std::size_t number = line.rfind(kLine);
    if (number == line.npos || number < file + kFile.size()) continue;
    const std::string_view rest = line.substr(number + kLine.size());
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0 || !rest.substr(digits).starts_with(kIn)) continue;
    const std::string_view function = rest.substr(digits + kIn.size());
    if (function.empty() || function[0] == ' ') continue;
    const std::size_t path = file + kFile.size();
    frames.push_back({line.substr(path, number - path), rest.substr(0, digits),
                      function.substr(0, function.find_first_of(" \t\r"))});
  }
  return frames;
}

namespace {

/// Of the thread that got the signal the last time. A thread without Python that aborts is not
/// listed; then of the main one, which comes last.
std::string main_thread_of(std::string stacks) {
  std::size_t begin = stacks.rfind("Current thread");
  if (begin == stacks.npos) begin = stacks.rfind("Thread 0x");
  if (begin != stacks.npos) stacks.erase(0, begin);
  return stacks.substr(0, stacks.find("\n\n"));
}

bool is_own(const StackFrame& frame) {
  return frame.file.find("/python/_lockstep/_") < frame.file.npos;
}

bool is_library(const StackFrame& frame) {
  return frame.file.find("site-packages") < frame.file.npos || frame.file.starts_with("<") ||
         frame.file.find("/lib/python") < frame.file.npos;
}

std::string in_words(const StackFrame& frame) {
  return fmt::format("{}, {}:{}", frame.function, fs::path(frame.file).filename().string(),
                     frame.line);
}

}  // namespace

RankStack read_stack(const fs::path& folder, int rank) {
  const std::string stacks = stacks_of(folder, rank);
  RankStack stack;
  stack.has_aborted = stacks.find("Fatal Python error: ") < stacks.npos;
  const std::string main = main_thread_of(stacks);
  for (const StackFrame& frame : frames_in(main)) {
    if (is_own(frame)) continue;
    if (stack.place.empty() && !is_library(frame)) stack.place = in_words(frame);
    if (stack.frames.size() < kMostFrames) stack.frames.push_back(in_words(frame));
  }
  if (stack.place.empty() && !stack.frames.empty()) stack.place = stack.frames.front();
  return stack;
}

std::string collective_in(const std::vector<std::string>& stack) {
  // Such functions call each other, as barrier() does; the user called the outermost one.
  std::string function;
  for (const std::string& frame : stack) {
    const std::size_t comma = frame.find(", distributed_c10d.py:");
    if (comma < frame.npos) function = frame.substr(0, comma);
  }
  return function;
}

bool is_alive(const WatchedProgress& rank) {
  const char state = state_of(rank.pid);
  if (!is_of_job(rank.pid)) return false;
  return state != '\0' && state != 'Z' && state != 'X';
}

bool trains_on(const WatchedProgress& rank) { return !rank.has_ended && is_alive(rank); }

bool is_stopped(const WatchedProgress& rank) {
  const char state = state_of(rank.pid);
  return state == 'T' || state == 't';
}

namespace {

/// Makes processes whose hooks did not answer write their stacks.
void signal_silent(const std::map<int, WatchedProgress>& progress, std::uint32_t request) {
  bool has_silent = false;
  for (const auto& [rank, one] : progress) {
    const bool has_answered = one.answered == request && is_alive(one) && !is_stopped(one);
    if (state_of(one, has_answered) != StalledState::silent) continue;
    has_silent = true;
    ::kill(one.pid, SIGRTMIN + kSignal);
  }
  if (has_silent) ::usleep(500'000);
}

std::vector<std::int64_t> counts_of(const WatchedProgress& progress) {
  std::vector<std::int64_t> counts;
  for (const std::uint64_t count : progress.collectives_of_groups) {
    counts.push_back(count == WatchedProgress::kUnknown ? -1 : static_cast<std::int64_t>(count));
  }
  return counts;
}

/// Adds a rank of this machine.
void add_rank(int rank, const WatchedProgress& progress, const fs::path& folder, Stall& stall) {
  const auto answer = keep_answer(folder, rank, stall);
  const bool lives = is_alive(progress) && !is_stopped(progress);
  StalledRank told{rank, state_of(progress, answer && lives), progress.steps};
  if (told.state == StalledState::silent) {
    RankStack stack = read_stack(folder, rank);
    told.place = stack.place.empty() ? place_in_system(progress.pid) : std::move(stack.place);
    told.stack = std::move(stack.frames);
  }
  if (told.state == StalledState::answered) {
    told.place = answer->place;
    told.stack = answer->stack;
    // A rank that exchanges messages makes a kind of progress that is not counted.
    told.awaits_message = answer->awaits_message && answer->stands_s >= stall.limit_s / 2;
  }
  told.collectives = counts_of(progress);
  stall.is_open = stall.is_open || (answer && answer->is_open());
  stall.ranks.push_back(std::move(told));
}

}  // namespace

Stall record_stall(const fs::path& folder, std::uint32_t request, double limit_s, bool is_node) {
  const std::map<int, WatchedProgress> progress = read_all_progress(folder);
  signal_silent(progress, request);
  Stall stall;
  stall.seen_ns = now_ns();
  stall.limit_s = limit_s;
  stall.request = request;
  for (const auto& [rank, one] : progress) {
    stall.world_size = std::max(stall.world_size, one.world_size);
  }
  for (int rank = 0; rank < stall.world_size; ++rank) {
    const auto known = progress.find(rank);
    if (known != progress.end()) {
      add_rank(rank, known->second, folder, stall);
    } else if (!is_node && !is_elsewhere(rank, progress)) {
      stall.ranks.push_back({rank, StalledState::absent});
    }
  }
  write_stall(folder, stall);
  return stall;
}

/// Of a stall that is over, and of a time before the first step in which nobody waited for anybody,
/// such as that of imports and compilers, nothing follows.
bool explains_an_end(const Stall& stall) {
  const bool has_begun = std::ranges::any_of(stall.ranks, &StalledRank::steps);
  return !stall.is_over && (stall.has_waiting() || has_begun);
}

namespace {

ExitCause cause_of(StalledState state) {
  if (state == StalledState::gone) return ExitCause::unseen;
  return state == StalledState::stopped ? ExitCause::stopped : ExitCause::no_progress;
}

/// "train.py:53" of "load_batch, train.py:53" or "the script, train.py:53", a line of the stack;
/// empty: it is in native code.
std::string line_of(const StalledRank& rank) {
  const std::string_view line = parts_of_frame(rank.place).place;
  const bool is_known = std::ranges::any_of(
      rank.stack, [&](const std::string& frame) { return parts_of_frame(frame).place == line; });
  return is_known ? std::string(line) : "";
}

/// The end of a rank of a job that hangs.
void set_hung(const Stall& stall, const StalledRank& rank, RankExit& end) {
  end.kind = ExitKind::unfinished;
  end.error.clear();
  end.step = rank.steps + 1;
  end.is_after_step = false;
  end.cause = cause_of(rank.state);
  end.place = line_of(rank);
  if (end.cause != ExitCause::no_progress) return;
  end.awaits_message = rank.awaits_message;
  end.ended_ns = stall.seen_ns;
  end.limit_s = stall.limit_s;
}

}  // namespace

void add_stall(const Stall& stall, bool hangs, std::vector<RankExit>& exits) {
  if (!explains_an_end(stall)) return;
  for (const StalledRank& one : stall.ranks) {
    const auto at = std::find_if(exits.begin(), exits.end(),
                                 [&](const RankExit& end) { return end.rank == one.rank; });
    if (at == exits.end()) continue;
    RankExit& end = *at;
    if (end.detail.empty()) end.detail = in_words(stall, one);
    if (end.stack.empty()) end.stack = one.stack;
    // A rank that finished did not hang after all.
    const bool has_ended = one.state == StalledState::ended || end.kind == ExitKind::finished;
    if (hangs && !has_ended) set_hung(stall, one, end);
  }
}

}  // namespace lockstep
