#include "harness/cli/named_runs.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "harness/job/attempts.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

NamedRuns::NamedRuns(const std::vector<std::string>& named) {
  for (const std::string& name : named) {
    const std::vector<fs::path> machines = folders_of_machines(name);
    for (const fs::path& machine : machines) open(machine.string());
    if (machines.empty()) open(name);
  }
  // Findings alone cannot be judged together with files.
  const auto rest = std::stable_partition(runs_.begin(), runs_.end(),
                                          [&](const JoinedRun& run) { return has_files(run); });
  std::vector<JoinedRun> findings(std::make_move_iterator(rest),
                                  std::make_move_iterator(runs_.end()));
  runs_.erase(rest, runs_.end());
  runs_ = join_machines(std::move(runs_));
  std::move(findings.begin(), findings.end(), std::back_inserter(runs_));
}

void NamedRuns::open(const std::string& named) {
  auto run_named = std::make_unique<OpenedRun>(named);
  const std::string folder = run_named->folder().string();
  const OpenedRun& opened = *opened_.try_emplace(folder, std::move(run_named)).first->second;
  RunRecord run = opened.record();
  if (opened.has_files()) take_up(run, opened.folder());
  runs_.push_back({{opened.folder()}, std::move(run)});
}

const OpenedRun& NamedRuns::opened(const fs::path& folder) const {
  const auto found = opened_.find(folder.string());
  if (found == opened_.end()) throw internal_error("a run without its folder");
  return *found->second;
}

std::string NamedRuns::shown(const JoinedRun& run) const {
  std::string text;
  for (const fs::path& folder : run.folders) {
    text += (text.empty() ? "" : " ") + opened(folder).shown().string();
  }
  return text;
}

bool NamedRuns::has_files(const JoinedRun& run) const {
  return std::all_of(run.folders.begin(), run.folders.end(),
                     [&](const fs::path& folder) { return opened(folder).has_files(); });
}

}  // namespace lockstep
