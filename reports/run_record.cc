#include "reports/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

std::string with_detail(std::string_view text, const RankEnd& end) {
  return end.detail.empty() ? std::string(text) : fmt::format("{} ({})", text, end.detail);
}

Detection& line_of(std::vector<Detection>& lines, const Cell& cell) {
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const Detection& d) { return d.scenario == cell.scenario; });
  if (line != lines.end()) return *line;
  lines.emplace_back().scenario = cell.scenario;
  lines.back().device = cell.device;
  return lines.back();
}

int count(const std::vector<Check>& checks, Check::Outcome outcome) {
  return static_cast<int>(std::count_if(
      checks.begin(), checks.end(), [&](const Check& check) { return check.outcome == outcome; }));
}

/// A declared error breaks `ranks finish` without saying so, and both have to be found.
int declared(const CellRecord& cell) {
  const std::vector<Claim>& breaks = cell.expectation.breaks;
  const auto holds = [](const std::vector<Claim>& claims) {
    return std::find(claims.begin(), claims.end(), ranks_finish()) != claims.end();
  };
  const bool implied = !cell.expectation.raises.empty() && !holds(breaks) && holds(cell.claims);
  return static_cast<int>(breaks.size() + cell.expectation.raises.size()) + (implied ? 1 : 0) +
         (cell.expectation.not_triggered ? 1 : 0);
}

void add(const CellRecord& cell, Detection& line) {
  ++line.cells;
  if (cell.verdict == CellVerdict::not_applicable) {
    ++line.not_applicable;
    return;
  }
  line.declared += declared(cell);
  line.found += count(cell.checks, Check::Outcome::found);
  line.missed += count(cell.checks, Check::Outcome::missed);
  line.false_alarms += count(cell.checks, Check::Outcome::false_alarm);
  line.undecided += count(cell.checks, Check::Outcome::undecided);
  if (cell.checks.empty() && cell.verdict == CellVerdict::undecided) ++line.undecided;
  if (cell.verdict == CellVerdict::as_expected) ++line.as_expected;
}

}  // namespace

std::string how(const RankEnd& end) {
  switch (end.ending) {
    case Ending::finished:
      return "finished";
    case Ending::raised:
      return "raised an error";
    case Ending::exited:
      return with_detail(fmt::format("exited with status {}", end.code), end);
    case Ending::signalled:
      return with_detail(fmt::format("was killed by signal {}", end.code), end);
    case Ending::unfinished:
      if (end.detail.starts_with("limit of ")) return "did not finish within its " + end.detail;
      return with_detail("did not finish", end);
    case Ending::unstarted:
      return with_detail("could not be started", end);
  }
  return "";
}

bool Table::Entry::is_measured() const {
  return std::any_of(values.begin(), values.end(), [](double value) { return !std::isnan(value); });
}

bool is_as_promised(const Check& check) {
  return check.outcome == Check::Outcome::found || check.outcome == Check::Outcome::as_promised;
}

std::vector<Detection> detections(const RunRecord& run) {
  std::vector<Detection> lines;
  for (const CellRecord& cell : run.cells) add(cell, line_of(lines, cell.cell));
  return lines;
}

int exit_status(const RunRecord& run) {
  const auto any = [&](auto... verdicts) {
    return std::any_of(run.cells.begin(), run.cells.end(),
                       [&](const CellRecord& cell) { return ((cell.verdict == verdicts) || ...); });
  };
  if (any(CellVerdict::missed, CellVerdict::false_alarm)) return 1;
  if (any(CellVerdict::undecided)) return 2;
  return any(CellVerdict::as_expected) ? 0 : 3;
}

}  // namespace lockstep
