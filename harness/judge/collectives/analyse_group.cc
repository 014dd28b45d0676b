#include "harness/judge/collectives/analyse_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/collectives/absences.h"
#include "harness/judge/collectives/call_words.h"
#include "harness/judge/collectives/mismatch_rows.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/exits.h"
#include "harness/record/collective_words.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Searches for the first mismatch of one group.
class Search {
 public:
  Search(const CellEvidence& cell, const Group& group) : cell_(cell), group_(group) {}

  GroupAnalysis run() {
    if (!all_joined()) return std::move(found_);
    while (!found_.first && !is_over_ && next_row()) look_at_row();
    if (found_.first && !found_.first->is_open) find_hang();
    return std::move(found_);
  }

 private:
  /// Whether the group was formed: all members are on record, or some completed the rendezvous.
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

  /// All joined, but were ended before the rendezvous completed. It is a mismatch only if no rank
  /// is at fault otherwise.
  void note_nobody_met() {
    found_.doubt = fmt::format(
        "all {} ranks called to join the group {}, but were ended before it was complete",
        group_.size, group_.name);
    std::vector<int> waiting;
    for (const auto& [rank, calls] : group_.members) {
      const RankExit* end = exit_of(cell_.exits, rank);
      if (!end || absence_of(end) != MismatchFault::missing) return;
      waiting.push_back(rank);
    }
    CollectiveMismatch missed;
    missed.sentence = found_.doubt + ".";
    note(std::move(missed), MismatchFault::not_started, 0, {}, waiting);
  }

  /// Ranks that never joined the group. Empty for a subgroup, whose intended members are unknown.
  std::vector<int> absentees() const {
    std::vector<int> ranks;
    if (group_.size != cell_.evidence->processes()) return ranks;
    for (int rank = 0; rank < group_.size; ++rank) {
      if (!group_.members.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  void note_unjoined(const std::vector<int>& missing, const std::vector<int>& waiting) {
    CollectiveMismatch missed;
    if (missing.empty()) {
      found_.doubt = fmt::format("not all ranks joined the group {}", group_.name);
      if (has_dead_stranger()) return;
      missed.sentence = fmt::format("only {} of {} ranks joined the group {}: {}.", waiting.size(),
                                    group_.size, group_.name, ranks_in_words(waiting));
      return note(std::move(missed), MismatchFault::not_started, 0, {}, waiting);
    }
    auto [fault, culprits] = absent(cell_, missing);
    if (fault == MismatchFault::missing || fault == MismatchFault::count) {
      fault = MismatchFault::not_started;
    }
    missed.sentence = fmt::format("{} never joined the group {}; {} waited there.",
                                  ranks_in_words(culprits), group_.name, ranks_in_words(waiting));
    note(std::move(missed), fault, 0, culprits, waiting);
  }

  /// Whether a rank outside the group died or was stopped: it may have been an intended member.
  bool has_dead_stranger() const {
    return std::any_of(cell_.exits.begin(), cell_.exits.end(), [&](const RankExit& end) {
      const MismatchFault why = absence_of(&end);
      return !group_.members.contains(end.rank) &&
             (why == MismatchFault::dead || why == MismatchFault::stopped);
    });
  }

  /// Advances to the next recorded collective; false if there is none.
  bool next_row() {
    const std::optional<std::uint64_t> next = group_.next(number_);
    if (!next) return false;
    if (*next > number_ + 1 && found_.doubt.empty()) {
      found_.doubt =
          fmt::format("no rank recorded collective {} of the group {}", number_ + 1, group_.name);
    }
    number_ = *next;
    row_ = row_of(group_, number_);
    return true;
  }

  void look_at_row() {
    if (find_mismatch() || find_absence() || find_end_inside() || find_other_tensors()) return;
    find_doubt();
    ++found_.compared;
  }

  /// Ranks that made different calls and continued may be ended by a later collective.
  void find_hang() {
    std::optional<GroupMismatch> first = std::exchange(found_.first, std::nullopt);
    while (!(found_.first && found_.first->is_open) && !is_over_ && next_row()) {
      if (!not_out().empty() && find_mismatch()) continue;
      if (!find_absence() && !not_out().empty()) find_end_inside();
    }
    if (found_.first && found_.first->is_open) found_.hang = std::move(found_.first);
    found_.first = std::move(first);
  }

  std::int64_t step() const { return row_.begin()->second->step; }

  /// Ranks of the row that never completed it.
  std::vector<int> not_out() const {
    std::vector<int> ranks;
    for (const auto& [rank, call] : row_) {
      if (call->state != CollectiveState::completed) ranks.push_back(rank);
    }
    return ranks;
  }

  /// Whether a busy rank was ended soon after another had failed, so that it might still have
  /// called it.
  bool was_cut_off(int rank) const {
    const RankExit* end = exit_of(cell_.exits, rank);
    return end && end->cause == ExitCause::peer_failed && !elsewhere(rank) &&
           any_failed_by_itself(cell_);
  }

  bool is_alive(int rank) const {
    return absence_of(exit_of(cell_.exits, rank)) == MismatchFault::missing;
  }

  const Collective* elsewhere(int rank) const { return open_elsewhere(cell_, rank, group_.name); }

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

  /// Calls that cannot match.
  bool find_mismatch() {
    const auto classes = classes_of(row_, fits);
    if (classes.size() < 2) return false;
    note_mismatch(any_swapped(classes, may_meet) ? MismatchFault::order : coarsest(classes),
                  classes);
    return true;
  }

  /// The first property in this order in which the largest class differs from another one.
  MismatchFault coarsest(const std::vector<std::vector<int>>& classes) const {
    const auto largest =
        std::max_element(classes.begin(), classes.end(),
                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    std::set<MismatchFault> faults;
    for (const std::vector<int>& ranks : classes) {
      const auto fault = difference(*row_.at(largest->front()), *row_.at(ranks.front()));
      if (fault) faults.insert(*fault);
    }
    for (const MismatchFault fault : {MismatchFault::operation, MismatchFault::reduction,
                                      MismatchFault::dtype, MismatchFault::size}) {
      if (faults.contains(fault)) return fault;
    }
    return MismatchFault::root;
  }

  /// Matching calls on different tensors, all of which every rank has.
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
      note_mismatch(MismatchFault::order, classes);
      return true;
    }
    // Receivers of a broadcast may well store it in another tensor.
    const bool is_combined = row_.begin()->second->operation != "broadcast";
    if (!is_combined || !all_have(classes)) return false;
    note_mismatch(MismatchFault::tensors, classes);
    return true;
  }

  /// Whether every rank of the row has all tensors of the calls, by its log or its journal.
  bool all_have(const std::vector<std::vector<int>>& classes) const {
    for (const auto& [rank, call] : row_) {
      for (const std::vector<int>& ranks : classes) {
        if (!has_tensor(rank, row_.at(ranks.front())->tensor)) return false;
      }
    }
    return true;
  }

  bool has_tensor(int rank, const std::string& text) const {
    const std::vector<Collective>& log = *cell_.evidence->collectives(rank);
    const auto is_it = [&](const Collective& call) { return call.tensor == text; };
    if (std::any_of(log.begin(), log.end(), is_it)) return true;
    const auto& tensors = cell_.evidence->tensors();
    return std::any_of(tensors.begin(), tensors.end(), [&](const auto& observed) {
      const auto& [tensor, ranks] = observed;
      if (!std::binary_search(ranks.begin(), ranks.end(), rank)) return false;
      const bool has_role = tensor.kind == Kind::gradient || tensor.kind == Kind::parameter;
      return has_role && text == role_in_words(tensor.kind, tensor.name);
    });
  }

  void note_mismatch(MismatchFault fault, const std::vector<std::vector<int>>& classes) {
    const std::vector<int> culprits = minority(classes);
    CollectiveMismatch missed;
    const std::string start = culprits.size() == row_.size()
                                  ? "ranks disagree"
                                  : fmt::format("{} {} with the others", ranks_in_words(culprits),
                                                culprits.size() == 1 ? "disagrees" : "disagree");
    missed.sentence =
        fmt::format("{} on the {}: {}.", start, subject_of(fault), calls_in_words(row_, classes));
    note(std::move(missed), fault, number_, culprits, waiting_but(culprits));
  }

  /// The property of the collective that ranks disagree on.
  std::string subject_of(MismatchFault fault) const {
    const std::string place = place_in_words(group_, number_, step());
    if (fault == MismatchFault::order) return fmt::format("order of calls from {} on", place);
    return fmt::format("{} of {}", fault == MismatchFault::tensors ? "tensor" : name(fault), place);
  }

  /// Members that never called it although others did.
  bool find_absence() {
    std::vector<int> ranks;
    for (const auto& [rank, calls] : group_.members) {
      if (!row_.contains(rank)) ranks.push_back(rank);
    }
    if (ranks.empty()) return false;
    std::erase_if(ranks, [&](int rank) { return was_cut_off(rank); });
    if (ranks.empty()) {
      found_.doubt =
          fmt::format("a rank was ended before it called {}, because another rank had failed",
                      place_in_words(group_, number_, step()));
      is_over_ = true;
      return true;
    }
    std::vector<int> idle = ranks;
    std::erase_if(idle, [&](int rank) { return is_alive(rank) && elsewhere(rank); });
    if (!idle.empty()) ranks = idle;
    const auto [fault, culprits] = absent(cell_, ranks);
    const std::vector<int> waiting = waiting_but(culprits);
    const std::string where = fmt::format("{}, {}", place_in_words(group_, number_, step()),
                                          call_with_site(*row_.begin()->second));
    const std::string last = last_act(group_, culprits.front(), elsewhere(culprits.front()));
    CollectiveMismatch missed;
    if (is_elsewhere(fault) || waiting.empty()) {
      missed.sentence =
          fmt::format("{} {} {}{}; {}.", ranks_in_words(culprits),
                      fault == MismatchFault::count ? "finished without" : "never entered", where,
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

  static bool is_elsewhere(MismatchFault fault) {
    return fault == MismatchFault::count || fault == MismatchFault::missing;
  }

  /// Whether one rank left the result pending and moved on to the next, as all others did.
  bool has_left_behind(int rank) const {
    return not_out().size() == 1 && group_.members.at(rank).rbegin()->first > number_;
  }

  /// A rank that ended or was stopped in a collective that all had entered.
  bool find_end_inside() {
    std::vector<int> inside;
    for (const int rank : not_out()) {
      const RankExit* end = exit_of(cell_.exits, rank);
      const bool is_open = row_.at(rank)->state == CollectiveState::entered;
      if (!end || !is_open || is_victim(cell_, end) || has_left_behind(rank)) continue;
      const MismatchFault why = absence_of(end);
      if (why == MismatchFault::dead || why == MismatchFault::stopped) inside.push_back(rank);
    }
    if (inside.empty()) return false;
    const auto [fault, culprits] = absent(cell_, inside);
    const std::vector<int> waiting = waiting_but(culprits);
    CollectiveMismatch missed;
    missed.sentence =
        fmt::format("{} {} in {}, {}{}.", ranks_in_words(culprits),
                    culprits.size() == 1 ? "was" : "were", place_in_words(group_, number_, step()),
                    call_with_site(*row_.begin()->second), waiting_in_words(waiting));
    note(std::move(missed), fault, number_, culprits, waiting);
    return true;
  }

  /// Equal calls on unnamed tensors, from call sites that are swapped.
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
        "ranks call {} at swapped lines of code. The tensors have no names, so the order may "
        "differ: {}",
        place_in_words(group_, number_, step()), calls_in_words(row_, classes));
  }

  void note(CollectiveMismatch missed, MismatchFault fault, std::uint64_t number,
            const std::vector<int>& culprits, const std::vector<int>& waiting) {
    missed.fault = fault;
    missed.group = group_.name;
    missed.number = static_cast<std::int64_t>(number);
    missed.step = number > 0 ? step() : group_.step;
    missed.culprits = culprits;
    missed.waiting = waiting;
    if (number > 0) missed.rows = rows_around(cell_, group_, number);
    found_.first = GroupMismatch{std::move(missed), number > 0 ? moments() : group_.begun_ns,
                                 number == 0 || !not_out().empty()};
  }

  /// When each rank called the collective.
  std::map<int, std::int64_t> moments() const {
    std::map<int, std::int64_t> moments;
    for (const auto& [rank, call] : row_) moments[rank] = call->entered_ns;
    return moments;
  }

  const CellEvidence& cell_;
  const Group& group_;
  Row row_;
  std::uint64_t number_ = 0;
  bool is_over_ = false;  ///< later calls prove nothing
  GroupAnalysis found_;
};

}  // namespace

GroupAnalysis analyse_group(const CellEvidence& cell, const Group& group) {
  return Search(cell, group).run();
}

}  // namespace lockstep
