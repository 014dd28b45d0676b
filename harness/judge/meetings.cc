#include "harness/judge/meetings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/judge/predicates.h"
#include "harness/record/collective_words.h"
#include "reports/meeting_table.h"

namespace lockstep {

namespace {

/// How many collectives before the missed one are shown, and behind it.
constexpr std::uint64_t kShownBefore = 5;
constexpr std::uint64_t kShownBehind = 2;

/// The calls of one rank in one group, by number.
using Calls = std::map<std::uint64_t, const Collective*>;

struct Group {
  std::string name;
  int size = 0;
  std::map<int, Calls> members;  ///< by rank; those that came to join it
  std::set<int> joined;          ///< of them those that met the others
  std::int64_t begun_ns = std::numeric_limits<std::int64_t>::max();  ///< when the first came

  std::uint64_t last() const {
    std::uint64_t number = 0;
    for (const auto& [rank, calls] : members) {
      if (!calls.empty()) number = std::max(number, calls.rbegin()->first);
    }
    return number;
  }
};

Group& group_called(const Collective& call, std::vector<Group>& groups) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const Group& group) { return group.name == call.group; });
  if (found != groups.end()) return *found;
  Group& group = groups.emplace_back();
  group.name = call.group;
  group.size = call.group_size;
  return group;
}

std::vector<Group> groups_of(const Evidence& evidence) {
  std::vector<Group> groups;
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    const std::vector<Collective>* log = evidence.collectives(rank);
    if (!log) continue;
    for (const Collective& call : *log) {
      Group& group = group_called(call, groups);
      Calls& calls = group.members[rank];
      if (call.number > 0) calls[call.number] = &call;
      group.begun_ns = std::min(group.begun_ns, call.entered_ns);
      const bool has_met = call.operation == kJoin && call.state == CollectiveState::completed;
      if (has_met) group.joined.insert(rank);
    }
  }
  return groups;
}

/// The same collective of a group, as the ranks called it that came.
using Row = std::map<int, const Collective*>;

Row row_of(const Group& group, std::uint64_t number) {
  Row row;
  for (const auto& [rank, calls] : group.members) {
    const auto call = calls.find(number);
    if (call != calls.end()) row[rank] = call->second;
  }
  return row;
}

/// Ranks whose calls `is_same` takes for the same, by lowest rank.
template <class Same>
std::vector<std::vector<int>> classes_of(const Row& row, const Same& is_same) {
  std::vector<std::vector<int>> classes;
  for (const auto& [rank, call] : row) {
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const auto& ranks) {
      return is_same(*row.at(ranks.front()), *call);
    });
    if (found == classes.end()) {
      classes.push_back({rank});
    } else {
      found->push_back(rank);
    }
  }
  return classes;
}

bool fits(const Collective& a, const Collective& b) { return !difference(a, b); }

bool is_named(const Collective& call) { return call.tensor_id != 0; }

/// Whether ranks are to name the same tensor: where results are gathered or scattered each has its
/// own part of something.
bool combines_one_tensor(const Collective& call) {
  return call.operation.starts_with("allreduce") || call.operation == "reduce" ||
         call.operation == "broadcast";
}

/// Whether both are known to be on the same tensor, or nothing is known of one.
bool may_be_on_same(const Collective& a, const Collective& b) {
  const bool is_known = is_named(a) && is_named(b) && combines_one_tensor(a);
  return !is_known || a.tensor_id == b.tensor_id;
}

bool may_meet(const Collective& a, const Collective& b) {
  return fits(a, b) && may_be_on_same(a, b);
}

/// The ranks outside of the largest class; all of them where two are as large.
std::vector<int> minority(std::vector<std::vector<int>> classes) {
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const bool is_tie = classes.size() > 1 && classes[0].size() == classes[1].size();
  std::vector<int> ranks;
  for (std::size_t i = is_tie ? 0 : 1; i < classes.size(); ++i) {
    ranks.insert(ranks.end(), classes[i].begin(), classes[i].end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// Whether a rank calls, behind `number` and in the same step, what `is_wanted`.
template <class Wanted>
bool comes_later(const Calls& calls, std::uint64_t number, const Wanted& is_wanted) {
  const std::int64_t step = calls.at(number)->step;
  for (auto later = calls.upper_bound(number); later != calls.end(); ++later) {
    if (later->second->step != step) return false;
    if (is_wanted(*later->second)) return true;
  }
  return false;
}

/// Whether each of two ranks comes to the other's call later in the step.
template <class Same>
bool is_swapped(const Group& group, std::uint64_t number, int a, int b, const Same& is_same) {
  const Calls& of_a = group.members.at(a);
  const Calls& of_b = group.members.at(b);
  const Collective& call_a = *of_a.at(number);
  const Collective& call_b = *of_b.at(number);
  return comes_later(of_b, number, [&](const Collective& c) { return is_same(c, call_a); }) &&
         comes_later(of_a, number, [&](const Collective& c) { return is_same(c, call_b); });
}

/// What a rank is in beside the collectives of a group: who waits there is not at fault here.
/// Joining another group and point-to-point calls count; null: it is in nothing else.
const Collective* open_elsewhere(const Case& the_case, int rank, const std::string& group) {
  const std::vector<Collective>* log = the_case.evidence->collectives(rank);
  if (!log) return nullptr;
  const auto open = std::find_if(log->rbegin(), log->rend(), [&](const Collective& call) {
    const bool is_elsewhere = call.group != group || (call.number == 0 && call.operation != kJoin);
    return is_elsewhere && call.state == CollectiveState::entered;
  });
  return open == log->rend() ? nullptr : &*open;
}

/// The ending of a rank; null where it is not known.
const RankEnd* end_of(const Case& the_case, int rank) {
  for (const RankEnd& end : the_case.ends) {
    if (end.rank == rank) return &end;
  }
  return nullptr;
}

/// Why a rank did not come: as its ending tells.
MeetingFault absence_of(const RankEnd* end) {
  if (!end) return MeetingFault::missing;
  switch (end->ending) {
    case Ending::finished:
      return MeetingFault::count;
    case Ending::raised:
    case Ending::exited:
    case Ending::signalled:
    case Ending::unstarted:
      return MeetingFault::dead;
    case Ending::unfinished:
      return is_stopped(*end) ? MeetingFault::stopped : MeetingFault::missing;
  }
  return MeetingFault::missing;
}

/// A rank that raised because its peer was gone is not the one that everybody waited for.
bool is_victim(const RankEnd* end) {
  return end && end->ending == Ending::raised && is_loss_of_peer(end->error);
}

/// Of the ranks that did not come, those that tell why: the dead before the stopped, these before
/// those that finished, these before those that are elsewhere.
std::pair<MeetingFault, std::vector<int>> absent(const Case& the_case,
                                                 const std::vector<int>& ranks) {
  for (const MeetingFault fault :
       {MeetingFault::dead, MeetingFault::stopped, MeetingFault::count, MeetingFault::missing}) {
    std::vector<int> found;
    for (const int rank : ranks) {
      const RankEnd* end = end_of(the_case, rank);
      if (absence_of(end) == fault && !is_victim(end)) found.push_back(rank);
    }
    if (!found.empty()) return {fault, found};
  }
  return {MeetingFault::missing, ranks};
}

std::string place_in_words(const Group& group, std::uint64_t number, std::int64_t step) {
  const std::string when = step > 0 ? fmt::format(" in step {}", step) : "";
  return fmt::format("collective {} of the group {}{}", number, group.name, when);
}

std::string call_with_site(const Collective& call) {
  return call_in_words(call) + (call.site.empty() ? "" : fmt::format(" at {}", call.site));
}

/// "the last it did there was collective 6, a broadcast ..., which ended".
std::string last_act(const Case& the_case, const Group& group, int rank) {
  if (const Collective* open = open_elsewhere(the_case, rank, group.name)) {
    return fmt::format("rank {} is in {} of the group {}", rank, call_with_site(*open),
                       open->group);
  }
  const auto member = group.members.find(rank);
  if (member == group.members.end()) return "it never came to the group";
  if (member->second.empty()) return "it called nothing there before";
  const auto& [number, call] = *member->second.rbegin();
  const bool has_ended = call->state == CollectiveState::completed;
  return fmt::format("the last it did there was collective {}, {}, which {}", number,
                     call_with_site(*call), has_ended ? "ended" : "did not end");
}

/// What the ranks of a row call, class by class.
std::string calls_in_words(const Row& row, const std::vector<std::vector<int>>& classes) {
  std::vector<std::string> parts;
  for (const std::vector<int>& ranks : classes) {
    parts.push_back(fmt::format("{} {} {}", ranks_in_words(ranks),
                                ranks.size() == 1 ? "calls" : "call",
                                call_with_site(*row.at(ranks.front()))));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

MeetingCall shown_call(const Collective& call, const RankEnd* end) {
  MeetingCall shown;
  shown.text = call_in_words(call);
  shown.site = call.site;
  shown.is_open = call.state == CollectiveState::entered;
  if (shown.is_open && end && end->ended_ns) {
    shown.open_s = static_cast<double>(*end->ended_ns - call.entered_ns) * 1e-9;
  }
  return shown;
}

/// Looks for the first missed meeting of one group.
class Search {
 public:
  Search(const Case& the_case, const Group& group) : case_(the_case), group_(group) {}

  Meetings run() {
    if (!all_joined()) return std::move(found_);
    const std::uint64_t last = group_.last();
    for (std::uint64_t number = 1; number <= last && !found_.missed; ++number) look_at(number);
    if (found_.missed && not_out().empty()) find_hang(last);
    return std::move(found_);
  }

 private:
  /// Whether the group came to be: all members are on record, or some met the others.
  bool all_joined() {
    const auto came = static_cast<int>(group_.members.size());
    if (came >= group_.size) {
      if (group_.joined.empty() && group_.last() == 0) {
        found_.doubt = fmt::format(
            "all {} ranks came to the group {}, and none had met the others when it was ended",
            came, group_.name);
      }
      return true;
    }
    if (!group_.joined.empty()) {
      found_.doubt = fmt::format("the collective logs of {} ranks of the group {} are missing",
                                 group_.size - came, group_.name);
      return false;
    }
    std::vector<int> waiting;
    for (const auto& [rank, calls] : group_.members) waiting.push_back(rank);
    note_unjoined(absentees(), waiting);
    return false;
  }

  /// Ranks that never came to the group; of a part of the world it is not known whom it was to
  /// have.
  std::vector<int> absentees() const {
    std::vector<int> ranks;
    if (group_.size != case_.evidence->processes()) return ranks;
    for (int rank = 0; rank < group_.size; ++rank) {
      if (!group_.members.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  void note_unjoined(const std::vector<int>& missing, const std::vector<int>& waiting) {
    MissedMeeting missed;
    if (missing.empty()) {
      missed.sentence =
          fmt::format("{} of the {} ranks of the group {} came to join it: {}.", waiting.size(),
                      group_.size, group_.name, ranks_in_words(waiting));
      return note(std::move(missed), MeetingFault::not_started, 0, {}, waiting);
    }
    auto [fault, culprits] = absent(case_, missing);
    if (fault == MeetingFault::missing || fault == MeetingFault::count) {
      fault = MeetingFault::not_started;
    }
    missed.sentence = fmt::format("{} never came to the group {}, where {} waited to begin.",
                                  ranks_in_words(culprits), group_.name, ranks_in_words(waiting));
    note(std::move(missed), fault, 0, culprits, waiting);
  }

  void look_at(std::uint64_t number) {
    row_ = row_of(group_, number);
    number_ = number;
    if (find_mismatch() || find_absence() || find_end_inside() || find_other_tensors()) return;
    find_doubt();
    ++found_.compared;
  }

  /// Ranks that called different things and went on may be ended by a later meeting.
  void find_hang(std::uint64_t last) {
    MissedMeeting first = std::move(*found_.missed);
    const std::int64_t first_ns = found_.missed_ns;
    found_.missed.reset();
    while (number_ < last && !found_.missed) {
      row_ = row_of(group_, ++number_);
      if (!find_absence() && !not_out().empty() && !find_mismatch()) find_end_inside();
    }
    found_.hang = std::exchange(found_.missed, std::move(first));
    found_.missed_ns = first_ns;
  }

  std::int64_t step() const { return row_.begin()->second->step; }

  /// Ranks of the row that did not come out of it.
  std::vector<int> not_out() const {
    std::vector<int> ranks;
    for (const auto& [rank, call] : row_) {
      if (call->state != CollectiveState::completed) ranks.push_back(rank);
    }
    return ranks;
  }

  std::vector<int> waiting_but(const std::vector<int>& culprits) const {
    std::vector<int> ranks = not_out();
    std::erase_if(ranks, [&](int rank) {
      return std::find(culprits.begin(), culprits.end(), rank) != culprits.end();
    });
    return ranks;
  }

  template <class Same>
  bool any_swapped(const std::vector<std::vector<int>>& classes, const Same& is_same) const {
    for (std::size_t i = 1; i < classes.size(); ++i) {
      if (is_swapped(group_, number_, classes[0].front(), classes[i].front(), is_same)) return true;
    }
    return false;
  }

  /// Calls that cannot meet.
  bool find_mismatch() {
    const auto classes = classes_of(row_, fits);
    if (classes.size() < 2) return false;
    const Collective& first = *row_.at(classes[0].front());
    const Collective& second = *row_.at(classes[1].front());
    const MeetingFault fault =
        any_swapped(classes, may_meet) ? MeetingFault::order : difference(first, second).value();
    note_mismatch(fault, classes);
    return true;
  }

  /// Calls that meet, on tensors that all ranks have and that are not the same.
  bool find_other_tensors() {
    const auto is_same_name = [](const Collective& a, const Collective& b) {
      return a.tensor_id == b.tensor_id;
    };
    Row named = row_;
    std::erase_if(named, [](const auto& entry) {
      return !is_named(*entry.second) || !combines_one_tensor(*entry.second);
    });
    const auto classes = classes_of(named, is_same_name);
    if (classes.size() < 2) return false;
    const auto is_same = [](const Collective& a, const Collective& b) {
      return is_named(a) && fits(a, b) && a.tensor_id == b.tensor_id;
    };
    if (any_swapped(classes, is_same)) {
      note_mismatch(MeetingFault::order, classes);
      return true;
    }
    if (!all_have(classes)) return false;
    note_mismatch(MeetingFault::tensors, classes);
    return true;
  }

  /// Whether every rank of the row has, by its log or its journal, all tensors that are called.
  bool all_have(const std::vector<std::vector<int>>& classes) const {
    for (const auto& [rank, call] : row_) {
      for (const std::vector<int>& ranks : classes) {
        if (!has_tensor(rank, row_.at(ranks.front())->tensor)) return false;
      }
    }
    return true;
  }

  bool has_tensor(int rank, const std::string& text) const {
    const std::vector<Collective>& log = *case_.evidence->collectives(rank);
    const auto is_it = [&](const Collective& call) { return call.tensor == text; };
    if (std::any_of(log.begin(), log.end(), is_it)) return true;
    const auto& observations = case_.evidence->observations(rank);
    return std::any_of(observations.begin(), observations.end(), [&](const Observation& seen) {
      if (seen.kind == Kind::gradient) return text == "gradient of " + seen.name;
      return seen.kind == Kind::parameter && text == seen.name;
    });
  }

  void note_mismatch(MeetingFault fault, const std::vector<std::vector<int>>& classes) {
    const char* const what = fault == MeetingFault::order     ? "in another order"
                             : fault == MeetingFault::tensors ? "for different tensors"
                                                              : "with another ";
    const std::string how =
        is_other(fault) ? fmt::format("{}{}", what, name(fault)) : std::string(what);
    const std::vector<int> culprits = minority(classes);
    MissedMeeting missed;
    missed.sentence = fmt::format("ranks call {} {}: {}.", place_in_words(group_, number_, step()),
                                  how, calls_in_words(row_, classes));
    note(std::move(missed), fault, number_, culprits, waiting_but(culprits));
  }

  static bool is_other(MeetingFault fault) {
    return fault != MeetingFault::order && fault != MeetingFault::tensors;
  }

  /// Members that did not come although others did.
  bool find_absence() {
    std::vector<int> ranks;
    for (const auto& [rank, calls] : group_.members) {
      if (!row_.contains(rank)) ranks.push_back(rank);
    }
    if (ranks.empty()) return false;
    std::vector<int> idle = ranks;
    std::erase_if(idle, [&](int rank) { return open_elsewhere(case_, rank, group_.name); });
    if (!idle.empty()) ranks = idle;
    const auto [fault, culprits] = absent(case_, ranks);
    const std::vector<int> waiting = waiting_but(culprits);
    const std::string where = fmt::format("{}, {}", place_in_words(group_, number_, step()),
                                          call_with_site(*row_.begin()->second));
    const std::string last = last_act(case_, group_, culprits.front());
    MissedMeeting missed;
    if (is_elsewhere(fault) || waiting.empty()) {
      missed.sentence =
          fmt::format("{} {} {}{}; {}.", ranks_in_words(culprits),
                      fault == MeetingFault::count ? "finished without" : "never entered", where,
                      waiting_in_words(waiting), last);
    } else {
      missed.sentence = fmt::format("{} {} for {} in {}; {}.", ranks_in_words(waiting),
                                    waiting.size() == 1 ? "waits" : "wait",
                                    ranks_in_words(culprits), where, last);
    }
    note(std::move(missed), fault, number_, culprits, waiting);
    return true;
  }

  std::string waiting_in_words(const std::vector<int>& waiting) const {
    if (waiting.empty()) return "";
    return fmt::format(", in which {} {}", ranks_in_words(waiting),
                       waiting.size() == 1 ? "waits" : "wait");
  }

  static bool is_elsewhere(MeetingFault fault) {
    return fault == MeetingFault::count || fault == MeetingFault::missing;
  }

  /// A rank that ended or was stopped in a collective that all had entered.
  bool find_end_inside() {
    std::vector<int> inside;
    for (const int rank : not_out()) {
      const RankEnd* end = end_of(case_, rank);
      const bool is_open = row_.at(rank)->state == CollectiveState::entered;
      if (!end || !is_open || is_victim(end)) continue;
      const MeetingFault why = absence_of(end);
      if (why == MeetingFault::dead || why == MeetingFault::stopped) inside.push_back(rank);
    }
    if (inside.empty()) return false;
    const auto [fault, culprits] = absent(case_, inside);
    const std::vector<int> waiting = waiting_but(culprits);
    MissedMeeting missed;
    missed.sentence =
        fmt::format("{} {} in {}, {}{}.", ranks_in_words(culprits),
                    culprits.size() == 1 ? "was" : "were", place_in_words(group_, number_, step()),
                    call_with_site(*row_.begin()->second), waiting_in_words(waiting));
    note(std::move(missed), fault, number_, culprits, waiting);
    return true;
  }

  /// Equal calls of tensors without a name, from places that are swapped.
  void find_doubt() {
    if (!found_.doubt.empty()) return;
    Row unnamed = row_;
    std::erase_if(unnamed, [](const auto& entry) {
      return is_named(*entry.second) || entry.second->site.empty();
    });
    const auto classes = classes_of(
        unnamed, [](const Collective& a, const Collective& b) { return a.site == b.site; });
    const auto is_same = [](const Collective& a, const Collective& b) {
      return !is_named(a) && fits(a, b) && a.site == b.site;
    };
    if (classes.size() < 2 || !any_swapped(classes, is_same)) return;
    found_.doubt = fmt::format(
        "ranks call {} from places that are swapped between them, for tensors without a name, so "
        "that it may be in another order: {}",
        place_in_words(group_, number_, step()), calls_in_words(row_, classes));
  }

  void note(MissedMeeting missed, MeetingFault fault, std::uint64_t number,
            const std::vector<int>& culprits, const std::vector<int>& waiting) {
    missed.fault = fault;
    missed.group = group_.name;
    missed.number = static_cast<std::int64_t>(number);
    missed.step = number > 0 ? step() : 0;
    missed.culprits = culprits;
    missed.waiting = waiting;
    found_.missed_ns = number > 0 ? first_moment() : group_.begun_ns;
    if (number > 0) missed.rows = rows_around(number);
    found_.missed = std::move(missed);
  }

  /// When the first rank came to the row.
  std::int64_t first_moment() const {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const auto& [rank, call] : row_) first = std::min(first, call->entered_ns);
    return first;
  }

  std::vector<MeetingRow> rows_around(std::uint64_t number) const {
    std::vector<MeetingRow> rows;
    const std::uint64_t first = number > kShownBefore ? number - kShownBefore : 1;
    const std::uint64_t last = std::min(group_.last(), number + kShownBehind);
    for (std::uint64_t shown = first; shown <= last; ++shown) rows.push_back(shown_row(shown));
    return rows;
  }

  MeetingRow shown_row(std::uint64_t number) const {
    const Row row = row_of(group_, number);
    MeetingRow shown;
    shown.number = static_cast<std::int64_t>(number);
    shown.step = row.empty() ? 0 : row.begin()->second->step;
    shown.calls.resize(static_cast<std::size_t>(case_.evidence->processes()));
    for (const auto& [rank, call] : row) {
      shown.calls[static_cast<std::size_t>(rank)] = shown_call(*call, end_of(case_, rank));
    }
    shown.differs = row.size() < group_.members.size() || classes_of(row, may_meet).size() > 1;
    return shown;
  }

  const Case& case_;
  const Group& group_;
  Row row_;
  std::uint64_t number_ = 0;
  Meetings found_;
};

}  // namespace

Meetings meetings_of(const Case& the_case) {
  Meetings all;
  if (!the_case.evidence) return all;
  const std::vector<Group> groups = groups_of(*the_case.evidence);
  const auto badness = [&](const Meetings& found) {
    const MissedMeeting& missed = *found.missed;
    const bool is_consequence =
        missed.fault == MeetingFault::missing &&
        std::all_of(missed.culprits.begin(), missed.culprits.end(),
                    [&](int rank) { return open_elsewhere(the_case, rank, missed.group); });
    return std::tuple(is_consequence, found.missed_ns);
  };
  for (const Group& group : groups) {
    Meetings found = Search(the_case, group).run();
    found.compared += all.compared;
    if (!all.doubt.empty()) found.doubt = all.doubt;
    const bool is_first = found.missed && (!all.missed || badness(found) < badness(all));
    if (!is_first) {
      found.missed = std::move(all.missed);
      found.hang = std::move(all.hang);
      found.missed_ns = all.missed_ns;
    }
    all = std::move(found);
  }
  return all;
}

bool is_explained(const MissedMeeting& missed, const RankEnd& end, const Case& the_case) {
  const bool is_program_fault = is_mismatch(missed.fault) ||
                                missed.fault == MeetingFault::missing ||
                                missed.fault == MeetingFault::not_started;
  if (!is_program_fault) return false;
  if (end.ending == Ending::unfinished) return !is_stopped(end);
  if (is_victim(&end)) return true;
  // Gloo ends the process, and MPI's backend raises, in the call that did not fit.
  const std::vector<Collective>* log = the_case.evidence->collectives(end.rank);
  if (!log) return false;
  const bool is_in_it = std::any_of(log->begin(), log->end(), [&](const Collective& call) {
    return call.group == missed.group && call.state != CollectiveState::completed &&
           static_cast<std::int64_t>(call.number) == missed.number;
  });
  const bool has_aborted = end.ending == Ending::signalled && end.code == SIGABRT;
  return is_in_it && (has_aborted || end.ending == Ending::raised);
}

}  // namespace lockstep
