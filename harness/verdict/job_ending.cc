#include "harness/verdict/job_ending.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/judge/rank_exits.h"
#include "harness/judge/ranks/exits.h"
#include "harness/verdict/symptom.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/stack_frame.h"

namespace lockstep {

namespace {

/// The beginning of an error fills what its rank, step and place leave of a first sentence.
constexpr std::size_t kMostOfASentence = 160;
constexpr std::size_t kLeastOfAnError = 60;
/// Where ranks make more calls than these, the collectives side by side show all of them.
constexpr std::size_t kMostCalls = 2;

/// "load_batch (train.py:53)"; "train.py:53" outside of a function; empty: unknown.
std::string place_of(const RankExit& end) {
  const std::string_view frame = frame_of_place(end);
  const bool is_in_function = !frame.empty() && frame.front() != '<';  // "<module>"
  return is_in_function ? frame_in_words(frame) : end.place;
}

std::string_view verb(const std::vector<int>& ranks, std::string_view one, std::string_view more) {
  return ranks.size() == 1 ? one : more;
}

/// "an all-reduce" of "allreduce float [212]".
std::string collective_in_words(std::string_view call) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWords{
      {{"allreduce", "all-reduce"},
       {"allgather", "all-gather"},
       {"alltoall", "all-to-all"},
       {"reduce_scatter", "reduce-scatter"}}};
  call.remove_prefix(std::min(call.size(), call.find_first_not_of('_')));
  std::string word(call.substr(0, call.find(' ')));
  for (const auto& [name, in_words] : kWords) {
    if (word.starts_with(name)) word = in_words;
  }
  if (word.empty()) return "a collective";
  const bool has_vowel = std::string_view("aeiou").find(word.front()) != std::string_view::npos;
  return fmt::format("{} {}", has_vowel ? "an" : "a", word);
}

std::string in_brackets(const std::string& site) {
  return site.empty() ? "" : fmt::format(" ({})", site);
}

/// Of a rank in the first collective that did not match; null: unknown.
const CallOfRank* call_of(const CollectiveMismatch& missed, int rank) {
  const auto row = std::ranges::find_if(
      missed.rows, [&](const CollectiveRow& one) { return one.number == missed.number; });
  const bool is_known =
      row != missed.rows.end() && rank >= 0 && static_cast<std::size_t>(rank) < row->calls.size();
  return is_known && !row->calls[static_cast<std::size_t>(rank)].text.empty()
             ? &row->calls[static_cast<std::size_t>(rank)]
             : nullptr;
}

/// "in an all-reduce (train.py:72)".
std::string in_call(const CollectiveMismatch& missed, int rank) {
  const CallOfRank* const call = call_of(missed, rank);
  return call ? fmt::format("in {}{}", collective_in_words(call->text), in_brackets(call->site))
              : "in a collective";
}

/// Where ranks are that others wait for: "rank 1 is in load_batch (train.py:53)".
std::string absent_in_words(const CellFacts& facts, const std::vector<int>& absent) {
  std::map<std::string, std::vector<int>> places;
  for (const int rank : absent) {
    const RankExit* const end = exit_of(*facts.exits, rank);
    places[end ? place_of(*end) : ""].push_back(rank);
  }
  const auto& [place, ranks] = *std::ranges::max_element(
      places, {}, [](const auto& one) { return std::pair(!one.first.empty(), one.second.size()); });
  const std::size_t others = absent.size() - ranks.size();
  const std::string more =
      others == 0 ? ""
                  : fmt::format(", {} more {} elsewhere", others, others == 1 ? "rank" : "ranks");
  if (place.empty()) return fmt::format("{} never came", ranks_in_words(ranks));
  const std::string_view at = place.ends_with(')') ? "in" : "at";
  return fmt::format("{} {} {} {}{}", ranks_in_words(ranks), verb(ranks, "is", "are"), at, place,
                     more);
}

std::string waiting_in_words(const CollectiveMismatch& missed) {
  if (missed.waiting.empty()) return "";
  return fmt::format("{} {} for {} {}", ranks_in_words(missed.waiting),
                     verb(missed.waiting, "waits", "wait"), verb(missed.culprits, "it", "them"),
                     in_call(missed, missed.waiting.front()));
}

/// The collectives in which culprits wait for each other; fewer than two: they do not.
std::vector<const CollectiveMismatch*> circle_of(const CellFacts& facts,
                                                 const CollectiveMismatch& missed) {
  const auto are_culprits = [&](const std::vector<int>& ranks) {
    return !ranks.empty() &&
           std::ranges::all_of(ranks, [&](int rank) { return is_among(missed.culprits, rank); });
  };
  std::vector<const CollectiveMismatch*> circle;
  for (const CollectiveMismatch& open : facts.analysis.open) {
    if (are_culprits(open.waiting) && are_culprits(open.culprits)) circle.push_back(&open);
  }
  return circle;
}

/// "rank 0 waits for rank 1 in an all-reduce of group 1 (train.py:92), rank 1 for rank 0 in ...".
std::string circle_in_words(const std::vector<const CollectiveMismatch*>& circle) {
  std::vector<std::string> waits;
  for (std::size_t i = 0; i < std::min(circle.size(), kMostCalls); ++i) {
    const CollectiveMismatch& open = *circle[i];
    const CallOfRank* const call = call_of(open, open.waiting.front());
    waits.push_back(
        fmt::format("{}{} for {} in {} of group {}{}", ranks_in_words(open.waiting),
                    i > 0 ? "" : fmt::format(" {}", verb(open.waiting, "waits", "wait")),
                    ranks_in_words(open.culprits), collective_in_words(call ? call->text : ""),
                    open.group, in_brackets(call ? call->site : "")));
  }
  return fmt::format("{}", fmt::join(waits, ", "));
}

std::string never_joined(const CellFacts& facts, const CollectiveMismatch& missed) {
  std::string text = absent_in_words(facts, missed.culprits);
  if (missed.waiting.empty()) return text;
  const RankExit* const waiting = exit_of(*facts.exits, missed.waiting.front());
  const std::string place = waiting ? in_brackets(waiting->place) : "";
  return fmt::format("{}; {} {} for {} to join the group {}{}", text,
                     ranks_in_words(missed.waiting), verb(missed.waiting, "waits", "wait"),
                     verb(missed.culprits, "it", "them"), missed.group, place);
}

/// "rank 0 calls allreduce float [4] (train.py:87), rank 1 barrier (train.py:104)"; empty: their
/// calls look the same.
std::string different_calls(const CollectiveMismatch& missed) {
  std::map<std::string, std::vector<int>> calls;
  for (int rank = 0; const CallOfRank* const call = call_of(missed, rank); ++rank) {
    calls[call->text + in_brackets(call->site)].push_back(rank);
  }
  if (calls.size() < 2) return "";
  std::vector<std::pair<std::vector<int>, std::string>> by_rank;
  for (auto& [text, ranks] : calls) by_rank.emplace_back(ranks, text);
  std::ranges::sort(by_rank);
  const std::size_t shown = std::min(by_rank.size(), kMostCalls);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [ranks, text] = by_rank[i];
    words.push_back(fmt::format("{} {}{}", ranks_in_words(ranks),
                                i > 0 ? "" : fmt::format("{} ", verb(ranks, "calls", "call")),
                                text));
  }
  if (by_rank.size() > shown) words.emplace_back("others other ones");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string sentence_of(const CollectiveMismatch& missed) {
  std::string text = missed.sentence;
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// "ranks 0,3 wait for messages (train.py:7)"; by place: "rank 0 waits for a message (train.py:7),
/// rank 3 (eval.py:9)".
std::string messages_in_words(const CellFacts& facts, const std::vector<int>& waiting) {
  std::map<std::string, std::vector<int>> by_place;
  for (const int rank : waiting) by_place[exit_of(*facts.exits, rank)->place].push_back(rank);
  std::vector<std::pair<std::vector<int>, std::string>> by_rank;
  for (auto& [place, ranks] : by_place) by_rank.emplace_back(ranks, place);
  std::ranges::sort(by_rank);
  const std::size_t shown = std::min(by_rank.size(), kMostCalls);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [ranks, place] = by_rank[i];
    words.push_back(
        fmt::format("{}{}{}", ranks_in_words(ranks),
                    i > 0 ? "" : verb(ranks, " waits for a message", " wait for messages"),
                    in_brackets(place)));
  }
  if (by_rank.size() > shown) words.emplace_back("others elsewhere");
  return fmt::format("{}", fmt::join(words, ", "));
}

bool stands_still(const RankExit& end) { return end.cause == ExitCause::no_progress; }

/// Ranks that stand still, by whether they wait for a message.
struct StillRanks {
  std::vector<int> waiting;
  std::vector<int> others;
};

StillRanks still_in(const CellFacts& facts) {
  StillRanks still;
  for (const RankExit& end : *facts.exits) {
    if (!stands_still(end)) continue;
    (end.awaits_message ? still.waiting : still.others).push_back(end.rank);
  }
  return still;
}

/// Of a collective whose missing ranks wait for messages themselves: the ranks that wait for
/// nothing, and so for which all wait; empty: there are none.
std::vector<int> behind_messages(const CellFacts& facts, const CollectiveMismatch& missed) {
  const StillRanks still = still_in(facts);
  const bool all_wait =
      std::ranges::all_of(missed.culprits, [&](int rank) { return is_among(still.waiting, rank); });
  std::vector<int> behind;
  for (const int rank : still.others) {
    const bool is_in_collective = std::ranges::any_of(
        facts.analysis.open,
        [&](const CollectiveMismatch& open) { return is_among(open.waiting, rank); });
    if (all_wait && !is_in_collective && !is_among(missed.waiting, rank)) behind.push_back(rank);
  }
  return behind;
}

std::string mismatch_in_words(const CellFacts& facts, const CollectiveMismatch& missed) {
  if (missed.fault == MismatchFault::not_started && !missed.culprits.empty()) {
    return never_joined(facts, missed);
  }
  const auto circle = circle_of(facts, missed);
  if (circle.size() > 1) return circle_in_words(circle);
  if (missed.fault == MismatchFault::missing && !missed.culprits.empty()) {
    const std::vector<int> behind = behind_messages(facts, missed);
    if (!behind.empty()) {
      return fmt::format("{}; {}; {}", absent_in_words(facts, behind),
                         messages_in_words(facts, missed.culprits), waiting_in_words(missed));
    }
    const std::string waiting = waiting_in_words(missed);
    return absent_in_words(facts, missed.culprits) + (waiting.empty() ? "" : "; " + waiting);
  }
  if (missed.fault == MismatchFault::stuck && !missed.waiting.empty()) {
    return fmt::format("{} are all {}, and none leaves it", ranks_in_words(missed.waiting),
                       in_call(missed, missed.waiting.front()));
  }
  const std::string calls = is_difference_of_calls(missed.fault) ? different_calls(missed) : "";
  return calls.empty() ? sentence_of(missed) : calls;
}

bool hangs(const RankExit& end) { return stands_still(end) || end.cause == ExitCause::stopped; }

std::int64_t first_step_of_hang(const CellFacts& facts) {
  std::int64_t step = 0;
  for (const RankExit& end : *facts.exits) {
    if (hangs(end) && (step == 0 || end.step < step)) step = end.step;
  }
  return step;
}

Symptom symptom_with(SymptomKind kind, std::int64_t step, std::int64_t wrong_step,
                     std::string text) {
  Symptom symptom;
  symptom.kind = kind;
  symptom.step = step;
  symptom.wrong_step = wrong_step;
  symptom.text = std::move(text);
  return symptom;
}

Symptom hung(const CellFacts& facts, const std::string& why, std::int64_t wrong_step) {
  const std::int64_t step = first_step_of_hang(facts);
  return symptom_with(
      SymptomKind::hung, step, wrong_step,
      fmt::format("hang in step {}{}: {}", step, after_wrong_step(wrong_step, step), why));
}

/// "rank 1 is in load_batch (train.py:53); rank 0 waits for a message (train.py:72)".
std::string standing_in_words(const CellFacts& facts, const std::vector<int>& still) {
  const StillRanks ranks = still_in(facts);
  if (ranks.waiting.empty()) return absent_in_words(facts, still);
  const std::string messages = messages_in_words(facts, ranks.waiting);
  return ranks.others.empty()
             ? messages + ", and no rank sends one"
             : fmt::format("{}; {}", absent_in_words(facts, ranks.others), messages);
}

/// Of ranks that stand still, or whose processes were stopped, in no collective that is known.
Symptom hung_alone(const CellFacts& facts, std::int64_t wrong_step) {
  std::vector<int> stopped;
  std::vector<int> still;
  for (const RankExit* end : facts.unexplained) {
    if (end->cause == ExitCause::stopped) stopped.push_back(end->rank);
    if (stands_still(*end)) still.push_back(end->rank);
  }
  if (stopped.empty()) return hung(facts, standing_in_words(facts, still), wrong_step);
  std::string why =
      fmt::format("the {} of {} {} stopped by a signal", verb(stopped, "process", "processes"),
                  ranks_in_words(stopped), verb(stopped, "was", "were"));
  const auto& missed = facts.analysis.missed;
  if (missed && missed->culprits == stopped && !missed->waiting.empty()) {
    why += "; " + waiting_in_words(*missed);
  }
  return hung(facts, why, wrong_step);
}

/// "in step 1", where the finding says "in the backward pass of step 1". Passes after an update
/// belong to the next step.
std::string step_in_words(const RankExit& end) {
  if (end.during == StepPart::unknown) return end_in_words(end);
  return fmt::format("in step {}", end.during == StepPart::update ? end.step : end.step + 1);
}

/// The ranks that raised the same error at the same step as `end`.
std::vector<int> ranks_with_error(const CellFacts& facts, const RankExit& end) {
  std::vector<int> ranks;
  for (const RankExit* other : facts.unexplained) {
    const bool is_same = other->kind == end.kind && other->step == end.step &&
                         other->place == end.place && other->during == end.during;
    if (is_same) ranks.push_back(other->rank);
  }
  return ranks;
}

/// An error that fits, its first sentence, or the beginning of that.
std::string shortened(const std::string& error, std::size_t room) {
  constexpr std::string_view kCut = " [...]";
  const std::string first = error.size() <= room ? error : first_sentence(error);
  return first.size() <= room + 1 ? first
                                  : beginning(first, room - kCut.size());  // a full stop goes
}

Symptom raised(const CellFacts& facts, const RankExit& end, std::int64_t wrong_step) {
  constexpr std::size_t kMostOnRecord = 300;
  const std::string late = after_wrong_step(wrong_step, end.step);
  const std::string error = telling_sentences(end.error);
  const std::string place = place_of(end);
  const std::string where = place.empty() ? "" : ", at " + place;
  std::string text =
      fmt::format("raised on {} {}{}: ", ranks_in_words(ranks_with_error(facts, end)),
                  step_in_words(end), late);
  const std::size_t rest = std::min(text.size() + where.size(), kMostOfASentence - kLeastOfAnError);
  std::string shown = shortened(error, kMostOfASentence - rest);
  while (shown.ends_with('.')) shown.pop_back();
  text += shown.empty() ? "an error without a message" : shown;
  Symptom symptom = symptom_with(late.empty() ? SymptomKind::raised : SymptomKind::raised_late,
                                 end.step, wrong_step, text + where);
  symptom.error = beginning(error, kMostOnRecord);
  return symptom;
}

/// "by SIGKILL (out of memory?)" of "SIGKILL: out of memory?".
std::string signal_in_words(const RankExit& end) {
  const std::size_t colon = end.detail.find(": ");
  if (end.detail.empty()) return fmt::format("by signal {}", end.code);
  if (colon == std::string::npos) return "by " + end.detail;
  return fmt::format("by {} ({})", end.detail.substr(0, colon), end.detail.substr(colon + 2));
}

std::string and_others(std::size_t others) {
  return others == 0 ? "" : fmt::format(", and {} more {}", others, others == 1 ? "rank" : "ranks");
}

/// "; 3.1 GB at its last step"
std::string memory_in_words(const RankExit& end) {
  if (!end.peak_bytes) return "";
  const auto bytes = static_cast<double>(*end.peak_bytes);
  return bytes < 1e9 ? fmt::format("; {:.0f} MB at its last step", bytes / 1e6)
                     : fmt::format("; {:.1f} GB at its last step", bytes / 1e9);
}

Symptom killed(const CellFacts& facts, const RankExit& end, std::int64_t wrong_step) {
  const std::string late = after_wrong_step(wrong_step, end.step);
  return symptom_with(SymptomKind::killed, end.step, wrong_step,
                      fmt::format("killed: rank {}, {}, {}{}{}{}{}", end.rank, signal_in_words(end),
                                  end_in_words(end), late.empty() ? "" : ",", late,
                                  and_others(facts.culprits.size() - 1), memory_in_words(end)));
}

Symptom lost(const CellFacts& facts, const RankExit& end, std::int64_t wrong_step) {
  const bool is_unseen = end.cause == ExitCause::unseen;
  const std::string how = !is_unseen           ? exit_in_words(end)
                          : end.detail.empty() ? "disappeared"
                                               : end.detail;
  return symptom_with(
      SymptomKind::not_finished, end.step, wrong_step,
      fmt::format("rank {} {} {}{}{}", end.rank, how, end_in_words(end),
                  after_wrong_step(wrong_step, end.step), and_others(facts.culprits.size() - 1)));
}

Symptom ending_by(const CellFacts& facts, const RankExit& end, std::int64_t wrong_step) {
  if (end.kind == ExitKind::raised) return raised(facts, end, wrong_step);
  if (end.kind == ExitKind::signalled) return killed(facts, end, wrong_step);
  return hangs(end) ? hung_alone(facts, wrong_step) : lost(facts, end, wrong_step);
}

}  // namespace

std::optional<Symptom> ending_of_job(const CellFacts& facts, std::int64_t wrong_step) {
  if (facts.leaver) {
    const std::int64_t step = facts.unexplained.front()->step;
    return symptom_with(SymptomKind::not_finished, step, wrong_step,
                        leaving_in_words(facts) + after_wrong_step(wrong_step, step));
  }
  if (const RankExit* const end = telling_end(facts)) return ending_by(facts, *end, wrong_step);
  const std::vector<CollectiveMismatch>& blocking = facts.analysis.blocking;
  if (blocking.empty() || facts.all_finished) return std::nullopt;
  const CollectiveMismatch& missed = blocking.front();
  if (std::ranges::any_of(*facts.exits, stands_still)) {
    return hung(facts, mismatch_in_words(facts, missed), wrong_step);
  }
  const bool is_of_calls = is_difference_of_calls(missed.fault);
  return symptom_with(is_of_calls ? SymptomKind::mismatched : SymptomKind::not_finished,
                      missed.step, wrong_step,
                      sentence_of(missed) + after_wrong_step(wrong_step, missed.step));
}

}  // namespace lockstep
