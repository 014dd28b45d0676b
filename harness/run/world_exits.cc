#include "harness/run/world_exits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <tuple>
#include <utility>

#include "harness/launch/launch.h"
#include "harness/launch/log_tail.h"
#include "harness/record/collective_log.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_status.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// The rank of an exit file with this name.
std::optional<int> rank_of(const std::string& name) {
  constexpr std::string_view kPrefix = "rank-";
  int rank = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto [parsed, failure] = std::from_chars(name.data() + kPrefix.size(), end, rank);
  const bool is_exit = failure == std::errc() && std::string_view(parsed) == ".exit.json";
  return is_exit ? std::optional(rank) : std::nullopt;
}

/// Maximum age of a working rank's last sign at its end: checks are late on busy cores.
constexpr std::chrono::seconds kLatestLook{2};

/// Source of a rank's exit: its supervisor's record, the rank's own status, or neither.
enum class Sign { word, status, none };

/// Whether a rank failed by itself, not because of a lost peer or an external signal. `word`: its
/// supervisor's record; null if there is none.
bool has_failed_by_itself(const RankExit* word, const RankStatus& status) {
  if (word && (word->kind == ExitKind::exited || word->kind == ExitKind::signalled)) return true;
  const bool has_raised = word ? word->kind == ExitKind::raised : status.raised;
  const bool has_lost_peer =
      status.cause == ExitCause::lost_peer || (word && word->cause == ExitCause::lost_peer);
  return has_raised && !has_lost_peer;
}

}  // namespace

WorldExits::WorldExits(fs::path folder, Cell cell)
    : folder_(std::move(folder)), cell_(std::move(cell)) {}

void WorldExits::look() {
  // One listing instead of a query per rank, because the folder may be on another machine.
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder_, failure)) {
    const auto rank = rank_of(entry.path().filename().string());
    if (!rank || exits_.contains(*rank)) continue;
    auto exit = read_rank_exit(folder_, *rank);
    if (!exit) continue;
    require_process(rank_exit_file(folder_, *rank), process_identity(cell_, *rank), exit->process);
    exits_.emplace(*rank, std::move(*exit));
  }
}

std::optional<int> WorldExits::failed_rank() const {
  const LaunchedExit* first = nullptr;
  for (const auto& [rank, exit] : exits_) {
    if (exit.end.kind == ExitKind::finished) continue;
    if (!first || exit.ended_s < first->ended_s) first = &exit;
  }
  return first ? std::optional(first->end.rank) : std::nullopt;
}

std::optional<int> WorldExits::other_world_size() const {
  for (const auto& [rank, exit] : exits_) {
    if (exit.world_size != cell_.world_size) return exit.world_size;
  }
  return std::nullopt;
}

bool WorldExits::is_empty() const {
  if (!exits_.empty()) return false;
  for (int rank = 0; rank < cell_.world_size; ++rank) {
    if (was_started(rank)) return false;
  }
  return true;
}

/// Whether the rendezvous completed, by the log of a rank: then all ranks had been started.
bool WorldExits::have_met() const {
  for (int rank = 0; rank < cell_.world_size; ++rank) {
    LiveCollectiveLog log(collective_log_file(folder_, rank));
    if (log.count() == 0) continue;
    const Collective first = log.at(0);
    if (first.operation == kJoin && first.state == CollectiveState::completed) return true;
  }
  return false;
}

bool WorldExits::was_started(int rank) const {
  return fs::exists(rank_log(folder_, rank)) || have_met();
}

std::vector<RankExit> WorldExits::exits(const std::string& why) const {
  std::vector<RankExit> exits(static_cast<std::size_t>(cell_.world_size));
  std::vector<std::tuple<Sign, double, int>> in_time;
  for (int rank = 0; rank < cell_.world_size; ++rank) {
    RankExit& end = exits[static_cast<std::size_t>(rank)];
    const auto exit = exits_.find(rank);
    if (exit != exits_.end()) {
      end = exit->second.end;
      in_time.emplace_back(Sign::word, exit->second.ended_s, rank);
    } else {
      end.rank = rank;
      end.kind = was_started(rank) ? ExitKind::unfinished : ExitKind::unstarted;
      if (end.kind == ExitKind::unfinished) end.cause = ExitCause::unseen;
      end.detail = why;
      const bool has_ended = read_rank_status(rank_status_file(folder_, rank)).ended;
      in_time.emplace_back(has_ended ? Sign::status : Sign::none, 0, rank);
    }
    if (end.kind != ExitKind::finished) end.last_output = log_tail(rank_log(folder_, rank));
  }
  std::sort(in_time.begin(), in_time.end());
  for (std::size_t i = 0; i < in_time.size(); ++i) {
    exits[static_cast<std::size_t>(std::get<int>(in_time[i]))].order = static_cast<int>(i);
  }
  return exits;
}

/// The first by the clock of the folder: by a supervisor's record, or the rank's status if there is
/// none.
std::optional<WorldExits::Failure> WorldExits::first_failure() const {
  std::optional<Failure> first;
  for (int rank = 0; rank < cell_.world_size; ++rank) {
    const auto exit = exits_.find(rank);
    const bool has_word = exit != exits_.end();
    const fs::path status = rank_status_file(folder_, rank);
    if (!has_failed_by_itself(has_word ? &exit->second.end : nullptr, read_rank_status(status))) {
      continue;
    }
    const auto recorded = fs::last_write_time(has_word ? rank_exit_file(folder_, rank) : status);
    if (!first || recorded < first->recorded) first = Failure{rank, recorded};
  }
  return first;
}

void WorldExits::tell_whom_the_launcher_ended(std::vector<RankExit>& exits) const {
  const std::optional<Failure> failure = first_failure();
  if (!failure) return;
  for (RankExit& end : exits) {
    const bool is_lost = end.kind == ExitKind::unfinished && !exits_.contains(end.rank);
    if (!is_lost || end.rank == failure->rank) continue;
    std::error_code none;
    const auto seen = fs::last_write_time(rank_here_file(folder_, end.rank), none);
    if (none || seen + kLatestLook < failure->recorded) continue;
    end.cause = ExitCause::peer_failed;
    end.detail = fmt::format("ended by its launcher after rank {} failed", failure->rank);
  }
}

}  // namespace lockstep
