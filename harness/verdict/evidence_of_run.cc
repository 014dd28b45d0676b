#include "harness/verdict/evidence_of_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/judge/evidence/read_cell.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/verdict/not_run.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

bool was_run(const Execution& execution) {
  return execution.processes > 0 && !why_not_run(execution.exits);
}

const StepReader* EvidenceOfRun::of(const std::string& cell_folder) {
  const CellRecord* const cell = cell_in(cell_folder);
  return cell ? open(*cell, writers_of(*cell)) : nullptr;
}

const StepReader* EvidenceOfRun::of(const JobRecord& job) {
  return open(job, writers_of(job, folder_));
}

std::vector<std::string> EvidenceOfRun::faults_of(const Execution& execution,
                                                  const std::string& identity) const {
  if (!execution.manifest) return {};
  return manifest_faults(folder_ / execution.folder, execution.processes, identity,
                         *execution.manifest, reading_.meter);
}

std::vector<std::string> EvidenceOfRun::faults_of(const JobRecord& job) const {
  if (job.parts.empty()) return faults_of(job, execution_identity(job));
  std::vector<std::string> faults;
  for (const JobPart& part : job.parts) {
    if (!part.manifest) continue;
    for (const std::string& fault :
         manifest_faults(folder_ / part.folder, job.processes, execution_identity(part),
                         *part.manifest, reading_.meter)) {
      faults.push_back(part.folder + ": " + fault);
    }
  }
  return faults;
}

void EvidenceOfRun::forget_steps_but_of(const std::string& cell_folder) const {
  for (const auto& [folder, evidence] : read_) {
    if (evidence && folder != cell_folder) evidence->forget_steps();
  }
}

void EvidenceOfRun::distrust(const StaleIndex& stale) {
  const auto read = std::find_if(read_.begin(), read_.end(), [&](const auto& entry) {
    const fs::path folder = stale.journal().parent_path();
    return folder_ / entry.first == folder || has_part_in(entry.first, folder);
  });
  if (read == read_.end()) throw internal_error(stale.what());
  index_faults_[read->first] = stale.what();
  read_.erase(read);
}

std::string EvidenceOfRun::index_fault_of(const std::string& cell_folder) const {
  const auto found = index_faults_.find(cell_folder);
  return found == index_faults_.end() ? "" : found->second;
}

std::vector<RankExit> EvidenceOfRun::exits_of(const std::string& cell_folder) const {
  const CellRecord* const cell = cell_in(cell_folder);
  return cell ? cell->exits : std::vector<RankExit>();
}

std::optional<RankExit> EvidenceOfRun::first_exit_of(const std::string& cell_folder) const {
  const CellRecord* const cell = cell_in(cell_folder);
  return cell ? std::optional(cell->exits.front()) : std::nullopt;
}

const StepReader* EvidenceOfRun::open(const Execution& execution, Writers writers) {
  auto& evidence = read_[execution.folder];
  if (evidence) return evidence.get();
  Reading reading = reading_;
  if (index_faults_.contains(execution.folder)) reading.index = IndexUse::ignored;
  evidence = open_execution(folder_, execution, std::move(writers), reading);
  for (const std::string& fault : evidence->index_faults()) {
    index_faults_[execution.folder] = fault;
  }
  return evidence.get();
}

/// Whether the files of a part of that job are in `folder`.
bool EvidenceOfRun::has_part_in(const std::string& job_folder, const fs::path& folder) const {
  bool has_part = false;
  for_each_attempt(run_.jobs, [&](const JobRecord& job) {
    const bool is_in_it =
        job.folder == job_folder && std::ranges::any_of(job.parts, [&](const JobPart& part) {
          return folder_ / part.folder == folder;
        });
    has_part = has_part || is_in_it;
  });
  return has_part;
}

const CellRecord* EvidenceOfRun::cell_in(const std::string& folder) const {
  const auto cell = std::find_if(run_.cells.begin(), run_.cells.end(), [&](const CellRecord& c) {
    return c.folder == folder && was_run(c);
  });
  return cell == run_.cells.end() ? nullptr : &*cell;
}

}  // namespace lockstep
