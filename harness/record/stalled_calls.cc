#include "harness/record/stalled_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/record/rank_files.h"
#include "harness/record/rank_stack.h"
#include "harness/record/rank_status.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/base/secrets.h"
#include "reports/record/exit_cause.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string place_in(const Json& threads) {
  if (threads.empty()) return "";
  const std::string function = mask_secrets(threads[0].at("function").get<std::string>());
  std::string site = mask_secrets(threads[0].at("site").get<std::string>());
  if (function.empty()) return site;
  return fmt::format("{}, {}", function == "<module>" ? "the script" : function, site);
}

Collective call_in(const Json& json, std::int64_t now) {
  Collective call;
  call.number = whole_number<std::uint64_t>(json, "number");
  call.operation = json.at("operation");
  call.dtype = json.at("dtype");
  call.shape = json.at("shape");
  call.tensors = whole_number<std::uint32_t>(json, "tensors");
  call.elements = whole_number<std::uint64_t>(json, "elements");
  call.group = json.at("group");
  call.site = mask_secrets(json.at("site").get<std::string>());
  call.step = whole_number<std::int64_t>(json, "step");
  const bool is_complete = json.at("is_complete");
  call.state = is_complete ? CollectiveState::completed : CollectiveState::entered;
  if (__builtin_sub_overflow(now, whole_number<std::int64_t>(json, "age_ns"), &call.entered_ns)) {
    throw std::out_of_range("age_ns");
  }
  call.completed_ns = is_complete ? call.entered_ns : 0;
  return call;
}

StallAnswer answer_in(const Json& json, std::int64_t now) {
  StallAnswer answer;
  answer.is_joining = json.at("is_joining");
  answer.awaits_message = json.at("awaits_message");
  answer.stands_s = json.at("stands_s");
  const Json& threads = json.at("threads");
  answer.place = place_in(threads);
  if (!threads.empty()) answer.stack = stack_in(threads[0].at("stack"));
  for (const Json& group : json.at("groups")) {
    const std::string title = group.at("title");
    answer.groups[title] = whole_numbers<int>(group, "ranks");
    answer.first_known[title] = whole_number<std::uint64_t>(group, "first");
  }
  for (const Json& call : json.at("calls")) answer.calls.push_back(call_in(call, now));
  return answer;
}

/// What `read` makes of a file that a hook wrote. Empty: there is none.
template <class Read>
auto read_report(const fs::path& path, const Read& read) -> decltype(read(Json())) {
  if (!fs::exists(path)) return {};
  try {
    return read(Json::parse(read_text(path.string(), kLargestAnswer)));
  } catch (const Json::exception& error) {
    throw malformed(path.string(), 0, 0, "what the hook of a watched rank writes", error.what());
  } catch (const std::out_of_range& error) {
    throw malformed(path.string(), 0, 0, "whole numbers", error.what());
  }
}

/// Empty: there is none, or it belongs to another request.
std::optional<StallAnswer> read_answer(const fs::path& path, const Stall& stall) {
  return read_report(path, [&](const Json& json) -> std::optional<StallAnswer> {
    if (whole_number<std::uint32_t>(json, "request") != stall.request) return {};
    return answer_in(json, stall.seen_ns);
  });
}

/// What a rank noted when an error ended it.
struct EndOfRank {
  StallAnswer answer;
  bool is_abort = false;
  std::int64_t ended_ns = 0;
};

std::optional<EndOfRank> read_end(const fs::path& path) {
  return read_report(path, [](const Json& json) -> std::optional<EndOfRank> {
    const auto now = whole_number<std::int64_t>(json, "now_ns");
    return EndOfRank{answer_in(json, now), json.at("is_abort").get<bool>(), now};
  });
}

/// All ranks of a job that stands still.
struct StalledJob {
  struct Rank {
    StallAnswer answer;
    std::vector<std::int64_t> counts;  ///< as StalledRank::collectives
    bool has_answered = false;
    std::int64_t since_ns = 0;  ///< by the clock of its machine: it made no progress after this
  };
  std::map<int, Rank> ranks;
  int world_size = 0;
  bool is_open = false;

  void add(const fs::path& folder, const Stall& stall);
};

void StalledJob::add(const fs::path& folder, const Stall& stall) {
  world_size = std::max(world_size, stall.world_size);
  is_open = is_open || stall.is_open;
  for (const StalledRank& one : stall.ranks) {
    if (one.state == StalledState::absent) continue;
    auto answer = read_answer(rank_file(folder, one.rank, kKeptAnswerEnding), stall);
    Rank& rank = ranks[one.rank];
    rank.has_answered = answer.has_value();
    if (answer) rank.answer = std::move(*answer);
    rank.counts = one.collectives;
    rank.since_ns = stall.seen_ns - static_cast<std::int64_t>(stall.limit_s * 1e9);
  }
}

void forget_earlier(StalledJob& job) {
  std::map<std::string, std::uint64_t> first;
  for (const auto& [rank, one] : job.ranks) {
    for (const auto& [group, number] : one.answer.first_known) {
      first[group] = std::max(first[group], number);
    }
  }
  for (auto& [rank, one] : job.ranks) {
    std::erase_if(one.answer.calls,
                  [&](const Collective& call) { return call.number < first[call.group]; });
  }
}

/// What the ranks that answered know of groups.
class KnownGroups {
 public:
  explicit KnownGroups(const StalledJob& job) {
    for (const auto& [rank, one] : job.ranks) {
      for (const auto& [title, ranks] : one.answer.groups) add(title, ranks);
      for (const Collective& call : one.answer.calls) {
        if (one.answer.groups.contains(call.group)) calls_[call.group].emplace(call.number, call);
      }
    }
  }

  /// The groups that a rank is in, in the order of their creation: torch numbers their names.
  std::vector<std::string> titles_of(int rank) const {
    std::vector<std::string> titles;
    const auto found = titles_.find(rank);
    if (found == titles_.end()) return titles;
    for (const auto& [name, title] : found->second) {
      // Other names are hashes, whose order is unknown.
      if (name.second.find_first_not_of("0123456789") != std::string::npos) break;
      titles.push_back(title);
    }
    return titles;
  }

  /// Adds a group with its calls up to a number.
  void add_calls(const std::string& title, std::uint64_t last, StallAnswer& answer) const {
    answer.groups[title] = ranks_.at(title);
    const auto calls = calls_.find(title);
    if (calls == calls_.end()) return;
    for (auto [number, call] : calls->second) {
      if (number > last) break;
      call.state = CollectiveState::completed;
      call.site.clear();
      answer.calls.push_back(std::move(call));
    }
  }

 private:
  using Name = std::pair<std::size_t, std::string>;  ///< shorter numbers first

  void add(const std::string& title, const std::vector<int>& ranks) {
    ranks_[title] = ranks;
    const std::string name = title == "world" ? "" : title.substr(0, title.find(' '));
    for (const int rank : ranks) titles_[rank][{name.size(), name}] = title;
  }

  std::map<std::string, std::vector<int>> ranks_;                     ///< by title
  std::map<int, std::map<Name, std::string>> titles_;                 ///< by rank
  std::map<std::string, std::map<std::uint64_t, Collective>> calls_;  ///< by title and number
};

/// What a rank would answer that cannot.
StallAnswer answer_for(int rank, const std::vector<std::int64_t>& counts,
                       const KnownGroups& known) {
  StallAnswer answer;
  const std::vector<std::string> titles = known.titles_of(rank);
  for (std::size_t i = 0; i < std::min(titles.size(), counts.size()); ++i) {
    if (counts[i] < 0) continue;
    known.add_calls(titles[i], static_cast<std::uint64_t>(counts[i]), answer);
  }
  return answer;
}

Collective join_of(const std::string& group, int size, std::int64_t since_ns, bool has_met) {
  Collective join;
  join.operation = kJoin;
  join.group = group;
  join.group_size = size;
  join.state = has_met ? CollectiveState::completed : CollectiveState::entered;
  join.entered_ns = has_met ? 1 : since_ns;
  join.completed_ns = has_met ? 1 : 0;
  return join;
}

/// As a log has them: the joins of the groups, then the calls.
std::vector<Collective> log_of(const StallAnswer& answer, int world_size, std::int64_t since_ns) {
  std::vector<Collective> log;
  for (const auto& [group, ranks] : answer.groups) {
    log.push_back(join_of(group, static_cast<int>(ranks.size()), since_ns, true));
  }
  if (answer.is_joining && !answer.groups.contains("world")) {
    log.push_back(join_of("world", world_size, since_ns, false));
  }
  for (Collective call : answer.calls) {
    const auto group = answer.groups.find(call.group);
    if (group == answer.groups.end()) continue;
    call.group_size = static_cast<int>(group->second.size());
    log.push_back(std::move(call));
  }
  for (std::size_t i = 0; i < log.size(); ++i) log[i].seq = i;
  return log;
}

/// The smallest of the numbers of `ranks`; 0: one of them has none.
std::uint64_t least_of(const std::map<int, std::uint64_t>& numbers, const std::vector<int>& ranks) {
  std::uint64_t least = ranks.empty() ? 0 : ~0ULL;
  for (const int rank : ranks) {
    const auto found = numbers.find(rank);
    least = std::min(least, found == numbers.end() ? 0 : found->second);
  }
  return least;
}

/// The number of the last call that all ranks of a group made, by title; 0 if one of them is not in
/// `job`.
std::map<std::string, std::uint64_t> last_common_calls(const StalledJob& job) {
  std::map<std::string, std::map<int, std::uint64_t>> last;  // by title and rank
  for (const auto& [rank, one] : job.ranks) {
    for (const Collective& call : one.answer.calls) {
      std::uint64_t& number = last[call.group][rank];
      number = std::max(number, call.number);
    }
  }
  std::map<std::string, std::uint64_t> common;
  for (const auto& [rank, one] : job.ranks) {
    for (const auto& [title, ranks] : one.answer.groups) {
      common.try_emplace(title, least_of(last[title], ranks));
    }
  }
  return common;
}

/// Whether an error of the transport ended a rank, and none of its own.
bool has_lost_peer(const fs::path& folder, int rank) {
  const RankStatus status = read_rank_status(rank_status_file(folder, rank));
  return status.raised && is_loss_of_peer(status.error);
}

bool is_message(const Collective& call) {
  return call.operation.starts_with("send") || call.operation.starts_with("recv");
}

/// Whether ranks called different operations where a group had its last common call.
bool do_last_calls_differ(const StalledJob& job,
                          const std::map<std::string, std::uint64_t>& common) {
  std::map<std::string, std::set<std::string>> operations;
  for (const auto& [rank, one] : job.ranks) {
    for (const Collective& call : one.answer.calls) {
      const auto last = common.find(call.group);
      const bool is_last = last != common.end() && call.number == last->second;
      if (is_last && !is_message(call)) operations[call.group].insert(call.operation);
    }
  }
  return std::ranges::any_of(operations, [](const auto& one) { return one.second.size() > 1; });
}

/// A job in which a rank aborted, such as Gloo does in calls that do not fit: the others lost it in
/// theirs. Or each waited for the others in another call until its transport raised an error. What
/// one of them did not call any more says nothing. Not open: neither.
StalledJob ended_job(const std::vector<fs::path>& folders) {
  StalledJob job;
  std::set<int> raised;
  bool have_lost_peers = true;
  for (const fs::path& folder : folders) {
    for (const int rank : ranks_with_file(folder, kEndEnding)) {
      auto end = read_end(rank_file(folder, rank, kEndEnding));
      if (!end) continue;
      job.is_open = job.is_open || end->is_abort;
      if (!end->is_abort) raised.insert(rank);
      have_lost_peers = have_lost_peers && has_lost_peer(folder, rank);
      job.ranks[rank] = {std::move(end->answer), {}, true, end->ended_ns};
    }
  }
  const auto common = last_common_calls(job);
  job.is_open = job.is_open || (have_lost_peers && do_last_calls_differ(job, common));
  for (auto& [rank, one] : job.ranks) {
    std::vector<Collective>& calls = one.answer.calls;
    std::erase_if(calls, [&](const Collective& call) {
      const auto last = common.find(call.group);
      return last == common.end() || call.number > last->second;
    });
    // A recorder takes a call for complete that has raised.
    if (!calls.empty() && raised.contains(rank)) calls.back().state = CollectiveState::failed;
  }
  return job;
}

}  // namespace

bool StallAnswer::is_open() const {
  return is_joining || std::any_of(calls.begin(), calls.end(), [](const Collective& call) {
           return call.state == CollectiveState::entered;
         });
}

std::optional<StallAnswer> keep_answer(const fs::path& folder, int rank, const Stall& stall) {
  auto answer = read_answer(rank_file(folder, rank, kAnswerEnding), stall);
  if (answer) {
    fs::rename(rank_file(folder, rank, kAnswerEnding), rank_file(folder, rank, kKeptAnswerEnding));
  }
  return answer;
}

std::map<int, std::vector<Collective>> stalled_calls(const std::vector<fs::path>& folders) {
  StalledJob job;
  for (const fs::path& folder : folders) {
    const auto stall = read_stall(folder);
    if (stall && !stall->is_over) job.add(folder, *stall);
  }
  if (!job.is_open) job = ended_job(folders);
  if (!job.is_open) return {};
  forget_earlier(job);
  const KnownGroups known(job);
  std::map<int, std::vector<Collective>> logs;
  for (const auto& [rank, one] : job.ranks) {
    const StallAnswer answer = one.has_answered ? one.answer : answer_for(rank, one.counts, known);
    logs[rank] = log_of(answer, job.world_size, one.since_ns);
  }
  return logs;
}

}  // namespace lockstep
