#include "harness/judge/meetings.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "harness/judge/group_calls.h"
#include "harness/judge/meeting_words.h"
#include "harness/judge/predicates.h"
#include "harness/record/collective_words.h"
#include "reports/meeting_table.h"

namespace lockstep {

namespace {

/// How many collectives before the missed one are shown, and behind it.
constexpr std::uint64_t kShownBefore = 5;
constexpr std::uint64_t kShownBehind = 2;

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
bool is_victim(const Case& the_case, const RankEnd* end) {
  return end && has_lost_peer(the_case, *end);
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
      if (absence_of(end) == fault && !is_victim(the_case, end)) found.push_back(rank);
    }
    if (!found.empty()) return {fault, found};
  }
  return {MeetingFault::dead, ranks};
}

/// What a rank is in beside the collectives of a group, or was when it raised: who waits there is
/// not at fault here. Joining another group and point-to-point calls count; null: it is in nothing
/// else.
const Collective* open_elsewhere(const Case& the_case, int rank, const std::string& group) {
  const std::vector<Collective>* log = the_case.evidence->collectives(rank);
  if (!log) return nullptr;
  const auto open = std::find_if(log->rbegin(), log->rend(), [&](const Collective& call) {
    const bool is_elsewhere = call.group != group || (call.number == 0 && call.operation != kJoin);
    const bool was_last = call.state == CollectiveState::failed && &call == &log->back();
    return is_elsewhere && (call.state == CollectiveState::entered || was_last);
  });
  return open == log->rend() ? nullptr : &*open;
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

/// A meeting that was missed, as it compares to those of other groups.
struct Miss {
  MissedMeeting meeting;
  /// When ranks came to it, by the clocks of their machines, which have nothing in common.
  std::map<int, std::int64_t> came_ns;
  bool is_open = false;  ///< ranks did not come out of it
};

/// What one group has.
struct MeetingsOfGroup {
  std::int64_t compared = 0;
  std::optional<Miss> first;
  std::optional<Miss> hang;  ///< that ranks did not come out of, where they did of the first
  std::string doubt;
};

/// Looks for the first missed meeting of one group.
class Search {
 public:
  Search(const Case& the_case, const Group& group) : case_(the_case), group_(group) {}

  MeetingsOfGroup run() {
    if (!all_joined()) return std::move(found_);
    const std::uint64_t last = group_.last();
    for (std::uint64_t number = 1; number <= last && !found_.first; ++number) look_at(number);
    if (found_.first && !found_.first->is_open) find_hang(last);
    return std::move(found_);
  }

 private:
  /// Whether the group came to be: all members are on record, or some met the others.
  bool all_joined() {
    const auto came = static_cast<int>(group_.members.size());
    if (came >= group_.size) {
      if (group_.joined.empty() && group_.last() == 0) note_nobody_met();
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

  /// All came, and were ended before they had met: as one where nobody else is at fault.
  void note_nobody_met() {
    found_.doubt = fmt::format(
        "all {} ranks came to the group {}, and none had met the others when it was ended",
        group_.size, group_.name);
    std::vector<int> waiting;
    for (const auto& [rank, calls] : group_.members) {
      const RankEnd* end = end_of(case_, rank);
      if (!end || absence_of(end) != MeetingFault::missing) return;
      waiting.push_back(rank);
    }
    MissedMeeting missed;
    missed.sentence = found_.doubt + ".";
    note(std::move(missed), MeetingFault::not_started, 0, {}, waiting);
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
      found_.doubt = fmt::format("not all ranks of the group {} came to join it", group_.name);
      if (has_dead_stranger()) return;
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

  /// Whether a rank that did not come to the group died or was stopped: it may be who was to come.
  bool has_dead_stranger() const {
    return std::any_of(case_.ends.begin(), case_.ends.end(), [&](const RankEnd& end) {
      const MeetingFault why = absence_of(&end);
      return !group_.members.contains(end.rank) &&
             (why == MeetingFault::dead || why == MeetingFault::stopped);
    });
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
    std::optional<Miss> first = std::exchange(found_.first, std::nullopt);
    while (number_ < last && !(found_.first && found_.first->is_open)) {
      row_ = row_of(group_, ++number_);
      if (!find_absence() && !not_out().empty() && !find_mismatch()) find_end_inside();
    }
    if (found_.first && found_.first->is_open) found_.hang = std::move(found_.first);
    found_.first = std::move(first);
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

  const Collective* elsewhere(int rank) const { return open_elsewhere(case_, rank, group_.name); }

  std::vector<int> waiting_but(const std::vector<int>& culprits) const {
    std::vector<int> ranks = not_out();
    std::erase_if(ranks, [&](int rank) { return is_among(culprits, rank); });
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
    note_mismatch(any_swapped(classes, may_meet) ? MeetingFault::order : coarsest(classes),
                  classes);
    return true;
  }

  /// In what the largest class differs from another one, of all the first in this order.
  MeetingFault coarsest(const std::vector<std::vector<int>>& classes) const {
    const auto largest =
        std::max_element(classes.begin(), classes.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    std::set<MeetingFault> faults;
    for (const std::vector<int>& ranks : classes) {
      const auto fault = difference(*row_.at(largest->front()), *row_.at(ranks.front()));
      if (fault) faults.insert(*fault);
    }
    for (const MeetingFault fault : {MeetingFault::operation, MeetingFault::reduction,
                                     MeetingFault::dtype, MeetingFault::size}) {
      if (faults.contains(fault)) return fault;
    }
    return MeetingFault::root;
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
    // What one rank sends out of one tensor, others may well take into another.
    const bool is_combined = row_.begin()->second->operation != "broadcast";
    if (!is_combined || !all_have(classes)) return false;
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
    const bool is_known = culprits.size() < row_.size();
    missed.sentence =
        fmt::format("{} {} {} {}: {}.", is_known ? ranks_in_words(culprits) : "ranks",
                    is_known && culprits.size() == 1 ? "calls" : "call",
                    place_in_words(group_, number_, step()), how, calls_in_words(row_, classes));
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
    std::erase_if(idle, [&](int rank) { return elsewhere(rank); });
    if (!idle.empty()) ranks = idle;
    const auto [fault, culprits] = absent(case_, ranks);
    const std::vector<int> waiting = waiting_but(culprits);
    const std::string where = fmt::format("{}, {}", place_in_words(group_, number_, step()),
                                          call_with_site(*row_.begin()->second));
    const std::string last = last_act(group_, culprits.front(), elsewhere(culprits.front()));
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
      if (!end || !is_open || is_victim(case_, end)) continue;
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
    if (number > 0) missed.rows = rows_around(number);
    found_.first = Miss{std::move(missed), number > 0 ? moments() : group_.begun_ns,
                        number == 0 || !not_out().empty()};
  }

  /// When ranks came to the row.
  std::map<int, std::int64_t> moments() const {
    std::map<int, std::int64_t> moments;
    for (const auto& [rank, call] : row_) moments[rank] = call->entered_ns;
    return moments;
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
  MeetingsOfGroup found_;
};

/// Whether the ranks that it waits for are all in something else, or were when they raised.
bool is_consequence(const Miss& miss, const Case& the_case) {
  const std::vector<int>& culprits = miss.meeting.culprits;
  return !is_mismatch(miss.meeting.fault) && !culprits.empty() &&
         std::all_of(culprits.begin(), culprits.end(), [&](int rank) {
           return open_elsewhere(the_case, rank, miss.meeting.group) != nullptr;
         });
}

/// By the clock of a rank that came to both, where there is one, else by the step.
bool is_earlier(const Miss& a, const Miss& b) {
  for (const auto& [rank, moment] : a.came_ns) {
    const auto other = b.came_ns.find(rank);
    if (other != b.came_ns.end()) return moment < other->second;
  }
  return a.meeting.step < b.meeting.step;
}

/// That ranks called different things is told before anything else: others may have waited first,
/// for those that were ended by it.
class ComesBefore {
 public:
  explicit ComesBefore(const Case& the_case) : case_(the_case) {}

  bool operator()(const Miss& a, const Miss& b) const {
    return weight(a) == weight(b) ? is_earlier(a, b) : weight(a) < weight(b);
  }

 private:
  int weight(const Miss& miss) const {
    if (is_mismatch(miss.meeting.fault)) return 0;
    return is_consequence(miss, case_) ? 2 : 1;
  }

  const Case& case_;
};

/// Without those that follow from others, the first in front.
std::vector<MissedMeeting> roots_of(std::vector<Miss> open, const Case& the_case) {
  std::vector<MissedMeeting> roots;
  if (open.empty()) return roots;
  const auto first = std::min_element(open.begin(), open.end(), ComesBefore(the_case));
  std::rotate(open.begin(), first, first + 1);
  const auto is_told = [&](const Miss& miss) {
    const std::vector<int>& culprits = miss.meeting.culprits;
    return std::any_of(roots.begin(), roots.end(), [&](const MissedMeeting& root) {
      return std::includes(root.culprits.begin(), root.culprits.end(), culprits.begin(),
                           culprits.end());
    });
  };
  for (Miss& miss : open) {
    const bool is_root = roots.empty() || (!is_consequence(miss, the_case) && !is_told(miss));
    if (is_root) roots.push_back(std::move(miss.meeting));
  }
  return roots;
}

/// Faults of the program, which is to be told of them rather than of those who were ended by them.
bool is_program_fault(const MissedMeeting& missed) {
  return is_mismatch(missed.fault) || missed.fault == MeetingFault::missing ||
         missed.fault == MeetingFault::not_started;
}

/// Whether a rank did not come out of the very call in which `missed` came to be.
bool is_in(const MissedMeeting& missed, const Case& the_case, int rank) {
  const std::vector<Collective>* log = the_case.evidence->collectives(rank);
  return log && std::any_of(log->begin(), log->end(), [&](const Collective& call) {
           return call.group == missed.group && call.state != CollectiveState::completed &&
                  static_cast<std::int64_t>(call.number) == missed.number;
         });
}

}  // namespace

Meetings meetings_of(const Case& the_case) {
  Meetings all;
  if (!the_case.evidence) return all;
  std::vector<Miss> missed, open;
  for (const Group& group : groups_of(*the_case.evidence)) {
    MeetingsOfGroup found = Search(the_case, group).run();
    all.compared += found.compared;
    if (all.doubt.empty()) all.doubt = found.doubt;
    if (found.first && found.first->is_open) open.push_back(*found.first);
    if (found.first) missed.push_back(std::move(*found.first));
    if (found.hang) open.push_back(std::move(*found.hang));
  }
  const auto first = std::min_element(missed.begin(), missed.end(), ComesBefore(the_case));
  if (first != missed.end()) all.missed = std::move(first->meeting);
  all.blocking = roots_of(std::move(open), the_case);
  return all;
}

bool is_explained(const Meetings& meetings, const RankEnd& end, const Case& the_case) {
  const auto any = [&](const auto& is_it) {
    return std::any_of(
        meetings.blocking.begin(), meetings.blocking.end(),
        [&](const MissedMeeting& missed) { return is_program_fault(missed) && is_it(missed); });
  };
  if (!any([](const MissedMeeting&) { return true; })) return false;
  if (end.ending == Ending::unfinished && is_stopped(end)) return false;
  if (end.ending == Ending::unfinished) {
    return may_be_in_a_call(the_case, end.rank) ||
           any([&](const MissedMeeting& missed) { return is_among(missed.culprits, end.rank); });
  }
  if (has_lost_peer(the_case, end)) return true;
  // Gloo ends the process, and MPI's backend raises, in the call that did not fit.
  const bool has_aborted = end.ending == Ending::signalled && end.code == SIGABRT;
  return (has_aborted || end.ending == Ending::raised) &&
         any([&](const MissedMeeting& missed) { return is_in(missed, the_case, end.rank); });
}

}  // namespace lockstep
