#include "harness/cli/named_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/record/run_folder.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// A folder of a run, and the path of another one in it.
struct PlaceInRun {
  fs::path run;
  std::string rest;  ///< "scenario/variant/w2"
};

/// Absent: it is in no run, or a run itself.
std::optional<PlaceInRun> place_in_run(const std::string& named) {
  std::error_code failure;
  const fs::path folder = fs::canonical(named, failure);
  if (failure || !fs::is_directory(folder, failure)) return std::nullopt;
  if (fs::exists(folder / "record.json", failure)) return std::nullopt;
  for (fs::path run = folder.parent_path(); run.has_relative_path(); run = run.parent_path()) {
    if (!fs::exists(run / "record.json", failure)) continue;
    return PlaceInRun{run, folder.lexically_relative(run).generic_string()};
  }
  return std::nullopt;
}

const CellRecord* cell_in(const RunRecord& run, const std::string& folder) {
  const auto found = std::find_if(run.cells.begin(), run.cells.end(),
                                  [&](const CellRecord& cell) { return cell.folder == folder; });
  return found == run.cells.end() ? nullptr : &*found;
}

/// The run that a side of a comparison is or is in.
std::string run_of(const std::string& named) {
  return is_folder_of_cell(named) ? place_in_run(named)->run.string() : named;
}

/// The only cell of a run, or the one whose folder was named; null: there is none.
const CellRecord* named_cell(const RunRecord& run, const std::string& named) {
  if (const auto place = place_in_run(named)) return cell_in(run, place->rest);
  return run.cells.size() == 1 && run.jobs.empty() ? run.cells.data() : nullptr;
}

Error no_side(const RunRecord& run, const std::string& named) {
  if (run.cells.empty() || !run.jobs.empty()) {
    return bad_value("RUN", named,
                     "a run of `lockstep watch`, or a cell of `lockstep run`, with its files");
  }
  return bad_value("RUN", named,
                   fmt::format("the folder of one of its {} cells, such as {}", run.cells.size(),
                               (fs::path(named) / run.cells[0].folder).string()));
}

}  // namespace

bool is_folder_of_cell(const std::string& named) {
  const auto place = place_in_run(named);
  return place && cell_in(load_record(place->run), place->rest);
}

NamedJob::NamedJob(const std::string& named) : runs_({run_of(named)}) {
  const std::vector<JoinedRun>& runs = runs_.runs();
  if (runs.size() != 1 || !runs_.has_files(runs[0])) {
    throw bad_value("RUN", named, "one run with the files of its ranks");
  }
  const RunRecord& run = runs[0].run;
  if (const CellRecord* const cell = named_cell(run, named)) {
    open(*cell, runs[0]);
  } else if (run.jobs.size() == 1 && run.cells.empty()) {
    // A job that a script watches has no parent that judges it at its end.
    if (run.jobs[0].results.empty()) judge_run(runs_.runs()[0].run, runs[0].root());
    open(run.jobs[0], runs[0]);
  } else {
    throw no_side(run, named);
  }
}

void NamedJob::open(const JobRecord& job, const JoinedRun& run) {
  files_ = std::make_unique<SideFiles>(job, run.root(), runs_.shown(run));
  for (int number = 1;; ++number) {
    const fs::path again = repetition_folder(run.root(), number);
    if (!fs::exists(again / "record.json")) return;
    auto& other = other_runs_.emplace_back(std::make_unique<NamedJob>(again.string()));
    // What was to be perturbed and was not says nothing, and reproduces or does not for other
    // reasons.
    if (other->files_->job().perturbed != 0) repetitions_.push_back(std::move(other->files_));
  }
}

void NamedJob::open(const CellRecord& cell, const JoinedRun& run) {
  const std::string shown = (fs::path(runs_.shown(run)) / cell.folder).string();
  files_ = std::make_unique<SideFiles>(cell, run.root(), shown);
  if (cell.cell.role != Role::reference) return;
  for (int copy = 1; copy < cell.processes; ++copy) {
    repetitions_.push_back(
        std::make_unique<SideFiles>(cell, run.root(), "the perturbed copies of " + shown, copy));
  }
}

std::vector<const SideFiles*> repetitions_of(std::initializer_list<const NamedJob*> jobs) {
  std::vector<const SideFiles*> found;
  for (const NamedJob* job : jobs) {
    for (const auto& run : job->repetitions()) found.push_back(run.get());
  }
  return found;
}

}  // namespace lockstep
