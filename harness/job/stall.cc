#include "harness/job/stall.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <utility>

#include "harness/record/collective_log.h"
#include "harness/record/process_identity.h"
#include "harness/record/whole_file.h"
#include "harness/record/whole_number.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/record/run_record.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kLargestAnswer = 1 << 26;
constexpr int kSignal = 9;  ///< after SIGRTMIN: a process without a free thread writes its stacks

fs::path stall_file(const fs::path& folder) { return folder / "stall.json"; }

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

/// What a rank answered.
struct Answer {
  bool is_joining = false;
  std::string place;
  std::map<std::string, std::vector<int>> groups;    ///< ranks, by title
  std::map<std::string, std::uint64_t> first_known;  ///< number of the first call on record
  std::vector<Collective> calls;
};

std::string place_in(const Json& threads) {
  if (threads.empty()) return "";
  const std::string function = threads[0].at("function"), site = threads[0].at("site");
  if (function.empty()) return site;
  return fmt::format("{}, {}", function == "<module>" ? "the script" : function, site);
}

Collective call_in(const Json& json, std::int64_t now, std::int64_t step) {
  Collective call;
  call.number = whole_number<std::uint64_t>(json, "number");
  call.operation = json.at("operation");
  call.dtype = json.at("dtype");
  call.shape = json.at("shape");
  call.tensors = whole_number<std::uint32_t>(json, "tensors");
  call.elements = whole_number<std::uint64_t>(json, "elements");
  call.group = json.at("group");
  call.site = json.at("site");
  const bool is_complete = json.at("is_complete");
  call.state = is_complete ? CollectiveState::completed : CollectiveState::entered;
  call.step = is_complete ? 0 : step + 1;
  call.entered_ns = now - whole_number<std::int64_t>(json, "age_ns");
  call.completed_ns = is_complete ? call.entered_ns : 0;
  return call;
}

Answer answer_in(const Json& json, std::int64_t now, std::int64_t step) {
  Answer answer;
  answer.is_joining = json.at("is_joining");
  answer.place = place_in(json.at("threads"));
  for (const Json& group : json.at("groups")) {
    const std::string title = group.at("title");
    answer.groups[title] = group.at("ranks").get<std::vector<int>>();
    answer.first_known[title] = whole_number<std::uint64_t>(group, "first");
  }
  for (const Json& call : json.at("calls")) answer.calls.push_back(call_in(call, now, step));
  return answer;
}

/// Empty: the rank did not answer this request.
std::optional<Answer> read_answer(const fs::path& folder, int rank, std::uint32_t request,
                                  std::int64_t now, std::int64_t step) {
  const fs::path path = folder / fmt::format("rank-{}.stall.json", rank);
  if (!fs::exists(path)) return {};
  try {
    const Json json = Json::parse(read_text(path.string(), kLargestAnswer));
    if (whole_number<std::uint32_t>(json, "request") != request) return {};
    return answer_in(json, now, step);
  } catch (const Json::exception& error) {
    throw malformed(path.string(), 0, 0, "what the hook of a watched rank writes", error.what());
  } catch (const std::out_of_range& error) {
    throw malformed(path.string(), 0, 0, "whole numbers", error.what());
  }
}

std::string stacks_of(const fs::path& folder, int rank) {
  std::ifstream file(folder / fmt::format("rank-{}.stacks", rank));
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

/// Where a process is that cannot say so itself.
std::string place_of_silent(const fs::path& folder, int rank, pid_t pid) {
  const std::string stacks = place_in_stacks(folder, rank);
  if (!stacks.empty()) return stacks;
  const std::string channel = proc(pid, "wchan");
  return channel.empty() || channel == "0" ? "native code"
                                           : fmt::format("native code, which waits in {}", channel);
}

/// Recorders keep the last calls of a process, so the earliest ones on record differ between ranks:
/// those that a rank no longer has are left out on all.
void forget_earlier(std::map<int, Answer>& answers) {
  std::map<std::string, std::uint64_t> first;
  for (const auto& [rank, answer] : answers) {
    for (const auto& [group, number] : answer.first_known) {
      first[group] = std::max(first[group], number);
    }
  }
  for (auto& [rank, answer] : answers) {
    std::erase_if(answer.calls,
                  [&](const Collective& call) { return call.number < first[call.group]; });
  }
}

/// The groups that a rank is in, in the order of their creation: torch numbers their names.
std::vector<std::string> groups_with(int rank, const std::map<int, Answer>& answers) {
  std::map<std::pair<std::size_t, std::string>, std::string> by_name;  // shorter numbers first
  for (const auto& [other, answer] : answers) {
    for (const auto& [title, ranks] : answer.groups) {
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
      const std::string name = title == "world" ? "" : title.substr(0, title.find(' '));
      by_name[{name.size(), name}] = title;
    }
  }
  std::vector<std::string> titles;
  for (const auto& [name, title] : by_name) {
    // Other names are hashes, whose order is unknown.
    if (name.second.find_first_not_of("0123456789") != std::string::npos) break;
    titles.push_back(title);
  }
  return titles;
}

/// What a rank would answer that cannot: it called as many collectives as it had counted, and as
/// far as they are known from other ranks they were the same.
Answer answer_for(int rank, const WatchedProgress& progress, const std::map<int, Answer>& answers) {
  Answer answer;
  const std::vector<std::string> titles = groups_with(rank, answers);
  for (std::size_t i = 0; i < titles.size() && i < progress.collectives_of_groups.size(); ++i) {
    const std::string& title = titles[i];
    const std::uint64_t count = progress.collectives_of_groups[i];
    if (count == WatchedProgress::kUnknown) continue;
    std::map<std::uint64_t, Collective> calls;
    for (const auto& [other, known] : answers) {
      const auto group = known.groups.find(title);
      if (group == known.groups.end()) continue;
      answer.groups[title] = group->second;
      for (const Collective& call : known.calls) {
        if (call.group == title && call.number <= count) calls.emplace(call.number, call);
      }
    }
    for (auto& [number, call] : calls) {
      call.state = CollectiveState::completed;
      call.site.clear();
      answer.calls.push_back(call);
    }
  }
  return answer;
}

Collective join_of(const std::string& group, int size, std::int64_t now, bool has_met) {
  Collective join;
  join.operation = kJoin;
  join.group = group;
  join.group_size = size;
  join.state = has_met ? CollectiveState::completed : CollectiveState::entered;
  join.entered_ns = has_met ? 1 : now;
  join.completed_ns = has_met ? 1 : 0;
  return join;
}

void write_logs(const fs::path& folder, const std::string& job_id, int world_size,
                const std::map<int, Answer>& answers, std::int64_t long_ago) {
  JobRecord job;
  job.id = job_id;
  for (const auto& [rank, answer] : answers) {
    std::error_code missing;
    const fs::path file = collective_log_file(folder, rank);
    fs::remove(file, missing);
    CollectiveLog log(file, rank, process_identity(job, rank));
    for (const auto& [group, ranks] : answer.groups) {
      log.append(join_of(group, static_cast<int>(ranks.size()), long_ago, true));
    }
    if (answer.is_joining && !answer.groups.contains("world")) {
      log.append(join_of("world", world_size, long_ago, false));
    }
    for (Collective call : answer.calls) {
      const auto group = answer.groups.find(call.group);
      if (group == answer.groups.end()) continue;
      call.group_size = static_cast<int>(group->second.size());
      log.append(call);
    }
  }
}

bool is_open(const Answer& answer) {
  return answer.is_joining ||
         std::any_of(answer.calls.begin(), answer.calls.end(),
                     [](const Collective& call) { return call.state == CollectiveState::entered; });
}

void write(const fs::path& folder, const Stall& stall) {
  Json ranks = Json::array();
  for (const StalledRank& one : stall.ranks) {
    ranks.push_back({{"rank", one.rank},
                     {"state", name(one.state)},
                     {"steps", one.steps},
                     {"place", one.place}});
  }
  const Json json = {{"seen_ns", stall.seen_ns},
                     {"limit_s", stall.limit_s},
                     {"is_open", stall.is_open},
                     {"is_over", stall.is_over},
                     {"ranks", ranks}};
  write_whole_file(stall_file(folder), json.dump(2) + "\n");
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

bool has_aborted(const fs::path& folder, int rank) {
  return stacks_of(folder, rank).find("Fatal Python error: ") < std::string::npos;
}

std::string place_in_stacks(const fs::path& folder, int rank) {
  std::string stacks = stacks_of(folder, rank);
  // The last time, and the thread that got the signal: the main one.
  const std::size_t current = stacks.rfind("Current thread");
  if (current != stacks.npos) stacks.erase(0, current);
  static const std::regex line(R"re(File "([^"]*)", line (\d+) in (\S+))re");
  std::string first;
  for (std::sregex_iterator at(stacks.begin(), stacks.end(), line), end; at != end; ++at) {
    const std::string path = (*at)[1];
    const bool is_own = path.find("/python/lockstep/_") < path.npos;
    if (is_own) continue;
    const bool is_library = path.find("site-packages") < path.npos || path.starts_with("<") ||
                            path.find("/lib/python") < path.npos;
    const std::string place = fmt::format("{}, {}:{}", (*at)[3].str(),
                                          fs::path(path).filename().string(), (*at)[2].str());
    if (!is_library) return place;
    if (first.empty()) first = place;
  }
  return first;
}

bool is_alive(const WatchedProgress& rank) {
  const char state = state_of(rank.pid);
  if (!is_of_job(rank.pid)) return false;
  return state != '\0' && state != 'Z' && state != 'X';
}

bool is_stopped(const WatchedProgress& rank) {
  const char state = state_of(rank.pid);
  return state == 'T' || state == 't';
}

Stall record_stall(const fs::path& folder, const std::string& job_id, std::uint32_t request,
                   double limit_s) {
  Stall stall;
  stall.limit_s = limit_s;
  const std::map<int, WatchedProgress> progress = read_all_progress(folder);
  int world_size = 0;
  bool has_silent = false;
  for (const auto& [rank, one] : progress) world_size = std::max(world_size, one.world_size);
  for (const auto& [rank, one] : progress) {
    const bool has_answered = one.answered == request && is_alive(one) && !is_stopped(one);
    if (state_of(one, has_answered) != StalledState::silent) continue;
    has_silent = true;
    ::kill(one.pid, SIGRTMIN + kSignal);
  }
  if (has_silent) ::usleep(500'000);
  stall.seen_ns = now_ns();
  std::map<int, Answer> answers;
  for (int rank = 0; rank < world_size; ++rank) {
    StalledRank& told = stall.ranks.emplace_back();
    told.rank = rank;
    const auto known = progress.find(rank);
    if (known == progress.end()) {
      told.state = StalledState::absent;
      continue;
    }
    told.steps = known->second.steps;
    auto answer = read_answer(folder, rank, request, stall.seen_ns, told.steps);
    const bool lives = is_alive(known->second) && !is_stopped(known->second);
    told.state = state_of(known->second, answer && lives);
    if (told.state == StalledState::silent) {
      told.place = place_of_silent(folder, rank, known->second.pid);
    }
    if (!answer) continue;
    if (told.state == StalledState::answered) told.place = answer->place;
    stall.is_open = stall.is_open || is_open(*answer);
    answers.emplace(rank, std::move(*answer));
  }
  forget_earlier(answers);
  std::map<int, Answer> guessed;
  for (const auto& [rank, one] : progress) {
    if (!answers.contains(rank)) guessed.emplace(rank, answer_for(rank, one, answers));
  }
  answers.merge(guessed);
  const auto long_ago = stall.seen_ns - static_cast<std::int64_t>(limit_s * 1e9);
  if (stall.is_open) write_logs(folder, job_id, world_size, answers, long_ago);
  write(folder, stall);
  return stall;
}

void end_stall(const fs::path& folder, Stall& stall) {
  stall.is_over = true;
  std::error_code missing;
  for (const StalledRank& one : stall.ranks)
    fs::remove(collective_log_file(folder, one.rank), missing);
  write(folder, stall);
}

std::optional<Stall> read_stall(const fs::path& folder) {
  const fs::path path = stall_file(folder);
  if (!fs::exists(path)) return {};
  try {
    const Json json = Json::parse(read_text(path.string(), kLargestAnswer));
    Stall stall{whole_number<std::int64_t>(json, "seen_ns"), json.at("limit_s"), json.at("is_open"),
                json.at("is_over")};
    for (const Json& one : json.at("ranks")) {
      const auto state = parse<StalledState>(one.at("state").get<std::string>());
      if (!state) throw std::out_of_range("state");
      stall.ranks.push_back({whole_number<int>(one, "rank"), *state,
                             whole_number<std::int64_t>(one, "steps"), one.at("place")});
    }
    return stall;
  } catch (const std::exception& error) {
    throw malformed(path.string(), 0, 0, "what `lockstep watch` writes", error.what());
  }
}

void add_stall(const Stall& stall, std::vector<RankExit>& exits) {
  const bool hangs = stall.is_open && !stall.is_over;
  for (const StalledRank& one : stall.ranks) {
    const auto at = std::find_if(exits.begin(), exits.end(),
                                 [&](const RankExit& end) { return end.rank == one.rank; });
    if (at == exits.end()) continue;
    RankExit& end = *at;
    if (end.detail.empty()) end.detail = in_words(stall, one);
    // A rank that finished did not hang after all.
    if (!hangs || one.state == StalledState::ended || end.kind == ExitKind::finished) continue;
    end.kind = ExitKind::unfinished;
    end.error.clear();
    end.step = one.steps + 1;
    end.cause = one.state == StalledState::gone      ? ExitCause::unseen
                : one.state == StalledState::stopped ? ExitCause::stopped
                                                     : ExitCause::no_progress;
    if (end.cause != ExitCause::no_progress) continue;
    end.ended_ns = stall.seen_ns;
    end.limit_s = stall.limit_s;
  }
}

}  // namespace lockstep
