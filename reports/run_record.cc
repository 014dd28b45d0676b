#include "reports/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

std::string with_detail(std::string_view text, const RankEnd& end) {
  return end.detail.empty() ? std::string(text) : fmt::format("{} ({})", text, end.detail);
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
