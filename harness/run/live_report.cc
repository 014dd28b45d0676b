#include "harness/run/live_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "harness/cli/screen_options.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// The cell in `folder`; the number of cells if there is none.
std::size_t cell_in(const RunRecord& run, const std::string& folder) {
  const auto found = std::find_if(run.cells.begin(), run.cells.end(),
                                  [&](const CellRecord& cell) { return cell.folder == folder; });
  return static_cast<std::size_t>(found - run.cells.begin());
}

/// The first repetition of the cell `again`.
std::size_t first_run_of(const RunRecord& run, const Cell& again) {
  Cell first = again;
  first.repetition = 1;
  const auto found = std::find_if(run.cells.begin(), run.cells.end(),
                                  [&](const CellRecord& cell) { return cell.cell == first; });
  return static_cast<std::size_t>(found - run.cells.begin());
}

/// A reduced run that holds only the input for judging `cell`, the first of its cells.
RunRecord run_about(const RunRecord& run, std::size_t cell) {
  RunRecord part;
  part.environment = run.environment;
  const CellRecord& record = run.cells[cell];
  std::set<std::size_t> others{cell_in(run, record.reference_folder)};
  if (record.cell.repetition > 1) others.insert(first_run_of(run, record.cell));
  others.erase(cell);
  others.erase(run.cells.size());
  part.cells.push_back(record);
  for (const std::size_t other : others) part.cells.push_back(run.cells[other]);
  return part;
}

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

LiveReport::LiveReport(const RunRecord& run, fs::path folder, Verbosity verbosity)
    : run_(run),
      folder_(std::move(folder)),
      screen_(screen_of(STDERR_FILENO, verbosity)),
      has_ended_(run.cells.size()),
      is_judged_(run.cells.size()) {
  std::set<std::string> names;
  for (const CellRecord& record : run.cells) names.insert(record.cell.scenario);
  scenarios_ = names.size();
}

void LiveReport::begin(std::size_t cell) {
  if (is_quiet()) return;
  line_.show(fmt::format("{}: {}", progress_in_words(), plain(title_of(run_.cells[cell].cell))));
}

void LiveReport::end(std::size_t cell) {
  has_ended_[cell] = true;
  for (std::size_t i = 0; i < run_.cells.size(); ++i) {
    if (is_to_be_judged(i)) judge(i);
  }
  const std::string& scenario = run_.cells[cell].cell.scenario;
  bool is_last = true;
  for (std::size_t i = 0; i < run_.cells.size(); ++i) {
    is_last = is_last && (has_ended_[i] || run_.cells[i].cell.scenario != scenario);
  }
  if (is_last) end_scenario(scenario);
}

bool LiveReport::is_to_be_judged(std::size_t cell) const {
  if (is_judged_[cell] || !has_ended_[cell] || !has_run(run_.cells[cell])) return false;
  const CellRecord& record = run_.cells[cell];
  const std::size_t reference = cell_in(run_, record.reference_folder);
  if (reference < run_.cells.size() && !has_ended_[reference]) return false;
  return record.cell.repetition == 1 || has_ended_[first_run_of(run_, record.cell)];
}

void LiveReport::judge(std::size_t cell) {
  is_judged_[cell] = true;
  RunRecord part = run_about(run_, cell);
  try {
    judge_run(part, folder_);
  } catch (const Error&) {
    return;  // judging the whole run reports it
  }
  if (is_failure(result_of(part.cells.front()))) note(part.cells.front());
}

void LiveReport::note(const CellRecord& judged) {
  if (!first_failure_) {
    first_failure_ = fmt::format("{}/{}", judged.cell.scenario, judged.cell.variant);
  }
  failed_.push_back(judged);
  if (is_quiet()) return;
  line_.clear();
  say(failure_text(judged, screen_) + "\n");
}

void LiveReport::end_scenario(const std::string& scenario) {
  ++ended_scenarios_;
  if (is_quiet() || line_.is_shown() || scenarios_ < 2) return;
  const auto is_of_it = [&](const CellRecord& record) { return record.cell.scenario == scenario; };
  const auto cells = std::count_if(run_.cells.begin(), run_.cells.end(), is_of_it);
  const auto failed = std::count_if(failed_.begin(), failed_.end(), is_of_it);
  say(fmt::format("[{}/{}] {}: {} {}{}\n", ended_scenarios_, scenarios_, plain(scenario), cells,
                  cells == 1 ? "cell" : "cells",
                  failed == 0 ? "" : fmt::format(", {} not as expected", failed)));
}

/// "[31/261] 1 not as expected, about 20 s left".
std::string LiveReport::progress_in_words() const {
  const auto ended = std::count(has_ended_.begin(), has_ended_.end(), true);
  std::string text = fmt::format("[{}/{}]", ended, run_.cells.size());
  if (!failed_.empty()) text += fmt::format(" {} not as expected", failed_.size());
  constexpr std::ptrdiff_t kEnoughToTell = 10;
  if (ended < kEnoughToTell) return text;
  const std::chrono::duration<double> spent = Clock::now() - start_;
  const double left = static_cast<double>(run_.cells.size()) / static_cast<double>(ended) - 1;
  return text +
         fmt::format("{} about {:.0f} s left", failed_.empty() ? "" : ",", spent.count() * left);
}

}  // namespace lockstep
