#include "reports/formats/html_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "reports/page/html_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostLanes = 64;

/// Those of a record without charts: the calls around its mismatch.
CollectiveLanes lanes_of(const CollectiveMismatch& mismatch) {
  CollectiveLanes found{mismatch.group, {}, 0};
  const std::size_t ranks = mismatch.rows.empty() ? 0 : mismatch.rows.front().calls.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<LaneCall> calls;
    for (const CollectiveRow& row : mismatch.rows) {
      const CallOfRank& call = row.calls.at(rank);
      if (call.text.empty()) continue;
      calls.push_back({row.number, row.step, call.text, call.site, call.is_open});
    }
    const auto same = std::find_if(found.lanes.begin(), found.lanes.end(),
                                   [&](const Lane& lane) { return lane.calls == calls; });
    if (same != found.lanes.end()) {
      same->ranks.push_back(static_cast<int>(rank));
    } else if (found.lanes.size() < kMostLanes) {
      found.lanes.push_back({{static_cast<int>(rank)}, std::move(calls)});
    } else {
      ++found.ranks_left_out;
    }
  }
  return found;
}

bool is_among(const std::vector<int>& ranks, const Lane& lane) {
  return std::any_of(lane.ranks.begin(), lane.ranks.end(), [&](int rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
}

class LaneTable {
 public:
  LaneTable(const CollectiveLanes& lanes, const CollectiveMismatch* mismatch)
      : lanes_(lanes), mismatch_(mismatch) {
    for (const Lane& lane : lanes.lanes) {
      for (const LaneCall& call : lane.calls) {
        steps_.emplace(call.number, call.step);
        last_ = std::max(last_, call.number);
      }
    }
    if (mismatch && mismatch->number > 0) steps_.emplace(mismatch->number, mismatch->step);
  }

  std::string text() const {
    std::string heads, rows;
    for (const auto& [number, step] : steps_) {
      heads += fmt::format("<th scope=\"col\"{}>{}<br><span class=\"soft\">{}</span></th>",
                           is_marked(number) ? " class=\"marked\"" : "", number,
                           is_marked(number) ? "first mismatch"
                           : step > 0        ? fmt::format("step {}", step)
                                             : "outside steps");
    }
    for (const Lane& lane : lanes_.lanes) rows += row(lane);
    const std::string caption =
        fmt::format("Collectives of the group {}, by number", in_html(lanes_.group, 120));
    return fmt::format(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{0}\">"
        "<table class=\"lanes\"><caption><span>{0}</span></caption><thead><tr><th "
        "scope=\"col\">Ranks</th>{1}"
        "</tr></thead>\n<tbody>\n{2}</tbody></table></div>\n",
        caption, heads, rows);
  }

 private:
  bool is_marked(std::int64_t number) const { return mismatch_ && mismatch_->number == number; }

  std::string row(const Lane& lane) const {
    std::string cells;
    for (const auto& [number, step] : steps_) cells += cell(lane, number);
    return fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", ranks_in_short(lane.ranks), cells);
  }

  std::string cell(const Lane& lane, std::int64_t number) const {
    const auto call = std::find_if(lane.calls.begin(), lane.calls.end(),
                                   [&](const LaneCall& one) { return one.number == number; });
    const bool is_culprit = is_marked(number) && is_among(mismatch_->culprits, lane);
    const std::string mark = is_marked(number) ? " marked" : "";
    if (call == lane.calls.end()) {
      return fmt::format("<td class=\"{}{}\">{}</td>", is_culprit ? "wrong" : "none", mark,
                         is_culprit ? "<b>never called it</b>" : "-");
    }
    const std::string site =
        call->site.empty() ? "" : fmt::format("<small>{}</small>", in_html(call->site, 80));
    return fmt::format("<td class=\"{}{}\">{}{}{}</td>",
                       is_culprit      ? "wrong"
                       : call->is_open ? "open"
                                       : "call",
                       mark, in_html(call->text, 160), call->is_open ? "<br><b>waits</b>" : "",
                       site);
  }

  const CollectiveLanes& lanes_;
  const CollectiveMismatch* mismatch_;
  std::map<std::int64_t, std::int64_t> steps_;  ///< by number
  std::int64_t last_ = 0;
};

}  // namespace

std::string html_lanes(const Execution& execution) {
  const CollectiveMismatch* const mismatch = execution.mismatch ? &*execution.mismatch : nullptr;
  CollectiveLanes lanes;
  if (execution.charts) lanes = execution.charts->lanes;
  if (lanes.lanes.empty() && mismatch) lanes = lanes_of(*mismatch);
  if (lanes.lanes.empty()) return "";
  std::string text;
  if (mismatch) {
    text = fmt::format("<p><b>First mismatch:</b> {}</p>\n", in_html(mismatch->sentence));
  }
  text += LaneTable(lanes, mismatch).text();
  if (lanes.ranks_left_out > 0) {
    text += fmt::format("<p>{} more ranks called other sequences; they are not shown.</p>\n",
                        lanes.ranks_left_out);
  }
  return text;
}

}  // namespace lockstep
