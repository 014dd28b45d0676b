#include "harness/job/stall_watch.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {

/// The others may only be about to see that a rank is gone.
constexpr double kGraceOfLoss = 5;
/// Longer than a thread waits for the interpreter while others compute.
constexpr double kLongestAnswer = 5;

double seconds_since(std::chrono::steady_clock::time_point moment) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count();
}

bool has_moved(const WatchedProgress& before, const WatchedProgress& now) {
  return before.pid != now.pid || before.steps != now.steps ||
         before.collectives != now.collectives;
}

}  // namespace

StallWatch::StallWatch(std::filesystem::path folder, double limit_s, bool is_node,
                       WatchControl& control)
    : folder_(std::move(folder)), limit_s_(limit_s), is_node_(is_node), control_(control) {}

/// Returns the stall that is over by it.
std::optional<Stall> StallWatch::note_progress(std::map<int, WatchedProgress> progress) {
  bool moves = progress.size() != progress_.size();
  for (const auto& [rank, now] : progress) {
    const auto before = progress_.find(rank);
    moves = moves || before == progress_.end() || has_moved(before->second, now);
  }
  progress_ = std::move(progress);
  if (!moves) return {};
  moved_ = Clock::now();
  request_ = 0;
  has_failed_ = false;
  // One rank may call something while it handles an error, for which the others did not come.
  if (!stall_ || !have_all_moved()) return {};
  stall_->is_over = true;
  write_stall(folder_, *stall_);
  return std::exchange(stall_, std::nullopt);
}

bool StallWatch::have_all_moved() const {
  return std::all_of(at_stall_.begin(), at_stall_.end(), [&](const auto& before) {
    const auto now = progress_.find(before.first);
    return now != progress_.end() && now->second.pid == before.second.pid &&
           (now->second.has_ended || has_moved(before.second, now->second));
  });
}

/// Whether ranks wait that are not about to end.
bool StallWatch::is_due(double idle_s) const {
  const double after_loss = std::min(limit_s_, kGraceOfLoss);
  if (idle_s < after_loss) return false;  // most looks: no process is asked for
  std::size_t living = 0;
  bool is_one_lost = false;
  for (const auto& [rank, one] : progress_) {
    const bool lives = is_alive(one);
    if (lives) ++living;
    is_one_lost = is_one_lost || (!lives && !one.has_ended);
  }
  if (living == 0) return false;
  return idle_s >= limit_s_ || is_one_lost;
}

/// Whether asking again would say nothing new. Ranks that paused may hang later, before all of them
/// have made progress.
bool StallWatch::is_known() const {
  if (!stall_) return false;
  const bool was_pause = !stall_->has_waiting() && seconds_since(recorded_) >= limit_s_;
  return moved_ < recorded_ && !was_pause;
}

bool StallWatch::have_all_answered() const {
  return std::all_of(progress_.begin(), progress_.end(), [&](const auto& rank) {
    const WatchedProgress& one = rank.second;
    return one.answered == request_ || !is_alive(one) || is_stopped(one);
  });
}

std::int64_t StallWatch::last_step() const {
  std::int64_t last = 0;
  for (const auto& [rank, one] : progress_) last = std::max(last, one.steps);
  return last;
}

void StallWatch::kill_ranks() const {
  for (const auto& [rank, one] : progress_) {
    if (is_alive(one)) ::kill(one.pid, SIGKILL);
  }
}

std::optional<Stall> StallWatch::look() {
  bool is_elsewhere = false;
  if (auto ended = note_progress(read_all_progress(folder_, &is_elsewhere))) return ended;
  if (progress_.empty() || is_known() || has_failed_ || is_elsewhere) return {};
  if (request_ == 0) {
    if (!is_due(seconds_since(moved_))) return {};
    request_ = control_.ask_where();
    asked_ = Clock::now();
  }
  if (!have_all_answered() && seconds_since(asked_) < kLongestAnswer) return {};
  has_failed_ = true;  // unless the next line returns
  const bool was_told = stall_.has_value();
  stall_ = record_stall(folder_, std::exchange(request_, 0), seconds_since(moved_), is_node_);
  has_failed_ = false;
  at_stall_ = progress_;
  recorded_ = Clock::now();
  return was_told && !stall_->has_waiting() ? std::nullopt : stall_;
}

}  // namespace lockstep
