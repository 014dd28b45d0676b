#include "harness/cli/named_job.h"

#include <filesystem>
#include <vector>

#include "harness/record/run_folder.h"
#include "reports/base/usage_error.h"

namespace lockstep {

NamedJob::NamedJob(const std::string& named) : runs_({named}) {
  std::vector<JoinedRun>& runs = runs_.runs();
  const bool is_job = runs.size() == 1 && runs[0].run.jobs.size() == 1 && runs[0].run.cells.empty();
  if (!is_job || !runs_.has_files(runs[0])) {
    throw bad_value("RUN", named,
                    "a run of `lockstep watch` with its files; `report` and `compare` read others");
  }
  files_ = std::make_unique<JobFiles>(runs[0].run.jobs[0], runs[0].root(), runs_.shown(runs[0]));
  const std::filesystem::path again = runs[0].root() / kRepetitionFolder;
  if (std::filesystem::exists(again / "record.json")) {
    repetition_ = std::make_unique<NamedJob>(again.string());
  }
}

std::vector<const JobFiles*> repetitions_of(std::initializer_list<const NamedJob*> jobs) {
  std::vector<const JobFiles*> found;
  for (const NamedJob* job : jobs) {
    if (job->repetition()) found.push_back(job->repetition());
  }
  return found;
}

}  // namespace lockstep
