#include "reports/record/mismatch_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// Ranks with the same call in a row.
struct Doers {
  std::vector<int> ranks;
  const CallOfRank* call = nullptr;
};

bool is_same(const CallOfRank& a, const CallOfRank& b) {
  return a.text == b.text && a.site == b.site && a.is_open == b.is_open;
}

std::vector<Doers> callers_of(const CollectiveRow& row) {
  std::vector<Doers> all;
  for (std::size_t rank = 0; rank < row.calls.size(); ++rank) {
    const CallOfRank& call = row.calls[rank];
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const Doers& callers) { return is_same(*callers.call, call); });
    if (found == all.end()) {
      all.push_back({{static_cast<int>(rank)}, &call});
    } else {
      found->ranks.push_back(static_cast<int>(rank));
    }
  }
  return all;
}

std::string description(const CallOfRank& call) {
  if (call.text.empty()) return "never called it";
  std::string text = plain(call.text);
  if (!call.site.empty()) text += " at " + plain(call.site);
  if (call.is_open) text += fmt::format(", open for {:.1f} s", call.open_s);
  return text;
}

/// Whether a rank made a call in any row.
bool is_member(const CollectiveMismatch& missed, int rank) {
  return std::any_of(missed.rows.begin(), missed.rows.end(), [&](const CollectiveRow& row) {
    return !row.calls[static_cast<std::size_t>(rank)].text.empty();
  });
}

/// The ranks of `callers` to show in a line. A missing call is shown only where it was expected.
std::vector<int> shown_ranks(const CollectiveMismatch& missed, const CollectiveRow& row,
                             const Doers& callers) {
  if (!callers.call->text.empty()) return callers.ranks;
  if (row.number > missed.number) return {};  // after the mismatch no call was expected yet
  std::vector<int> told = callers.ranks;
  std::erase_if(told, [&](int rank) {
    const bool is_culprit =
        std::find(missed.culprits.begin(), missed.culprits.end(), rank) != missed.culprits.end();
    return !is_culprit && !is_member(missed, rank);
  });
  return told;
}

/// When a collective was called, given that earlier rows were called up to `last_step`.
std::string moment_of(const CollectiveRow& row, std::int64_t last_step) {
  if (row.step < 0) return "earlier";
  if (row.step > 0) return fmt::format("step {}", row.step);
  return last_step > 0 ? fmt::format("after step {}", last_step) : "before step 1";
}

}  // namespace

std::string parties_in_words(const Finding& finding) {
  const auto& groups = finding.groups;
  const bool is_alone = std::all_of(groups.begin(), groups.end(),
                                    [](const auto& group) { return group.size() == 1; });
  if (is_alone && groups.size() <= 2) return "";
  if (is_alone) return "no two ranks agree";
  std::vector<std::string> words;
  for (const std::vector<int>& group : groups) words.push_back(ranks_in_words(group));
  return fmt::format("{}", fmt::join(words, " against "));
}

std::string ranks_in_words(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t head = text.size();
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    const bool is_range = end - begin > 3;
    if (!is_range) end = begin + 1;
    text += fmt::format("{}{}", text.size() == head ? "" : ",", ranks[begin]);
    if (is_range) text += fmt::format("-{}", ranks[end - 1]);
    begin = end;
  }
  return text;
}

std::vector<std::string> mismatch_lines(const CollectiveMismatch& missed) {
  if (missed.rows.empty()) return {};
  std::vector<std::string> lines{
      fmt::format("collectives of the group {}, side by side:", plain(missed.group))};
  const std::size_t width = fmt::format("{}", missed.rows.back().number).size();
  std::int64_t last_step = 0;
  for (const CollectiveRow& row : missed.rows) {
    std::string head = fmt::format("{} {:>{}}  {}  ", row.number == missed.number ? '!' : ' ',
                                   row.number, width, moment_of(row, last_step));
    last_step = std::max(last_step, row.step);
    for (const Doers& callers : callers_of(row)) {
      const std::vector<int> ranks = shown_ranks(missed, row, callers);
      if (ranks.empty()) continue;
      lines.push_back(
          fmt::format("{}{}: {}", head, ranks_in_words(ranks), description(*callers.call)));
      head = std::string(head.size(), ' ');
    }
  }
  return lines;
}

}  // namespace lockstep
