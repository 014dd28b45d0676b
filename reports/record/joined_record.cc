#include "reports/record/joined_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "reports/base/plain_text.h"
#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

void put_in_front(const std::string& folder, std::string& place) {
  if (!folder.empty() && !place.empty()) place = folder + "/" + place;
}

std::string contents_of(const RunToJoin& one) {
  const RunRecord& run = one.run;
  std::string text =
      run.cells.empty() && !run.jobs.empty() ? "" : counted(run.cells.size(), "cell");
  if (!run.jobs.empty()) text += (text.empty() ? "" : ", ") + counted(run.jobs.size(), "job");
  return fmt::format("{}: {}", one.name, text);
}

auto versions_of(const RunEnvironment& environment) {
  return std::tie(environment.lockstep_version, environment.torch_version, environment.compiler,
                  environment.host);
}

std::string versions_in_words(const RunEnvironment& environment) {
  std::string text = "Lockstep " + environment.lockstep_version;
  if (!environment.torch_version.empty()) text += ", torch " + environment.torch_version;
  if (!environment.compiler.empty()) text += ", " + environment.compiler;  // a job has none
  return text + ", on " + environment.host;
}

/// Adds runs to a record one after the other.
class JoinedRecord {
 public:
  explicit JoinedRecord(const std::vector<RunToJoin>& runs) {
    record_.command = {"lockstep", "report"};
    for (const RunToJoin& one : runs) {
      record_.command.push_back(one.name);
      for (const JobRecord& job : one.run.jobs) ++titles_[job.title];
    }
    record_.environment = runs.front().run.environment;
  }

  void add(RunToJoin one) {
    add_notes(one);
    add_cells(one);
    for_each_attempt(one.run.jobs, [&](JobRecord& job) {
      put_in_front(one.folder, job.folder);
      for (JobPart& part : job.parts) put_in_front(one.folder, part.folder);
    });
    for (JobRecord& job : one.run.jobs) {
      if (titles_[job.title] > 1) job.notes.push_back("this job is in " + one.name);
      record_.jobs.push_back(std::move(job));
    }
    std::ranges::move(one.run.comparisons, std::back_inserter(record_.comparisons));
    for (Table& table : one.run.tables) add_table(std::move(table), one.name);
    add_environment(one.run.environment);
  }

  RunRecord take() {
    record_.planned = counts_of(record_);
    return std::move(record_);
  }

 private:
  void add_notes(const RunToJoin& one) {
    std::string contents = contents_of(one);
    const RunEnvironment& environment = one.run.environment;
    if (versions_of(environment) != versions_of(record_.environment)) {
      contents += "; " + versions_in_words(environment);
    }
    record_.notes.push_back(std::move(contents));
    for (const std::string& note : one.run.notes) {
      record_.notes.push_back(fmt::format("{}: {}", one.name, note));
    }
  }

  void add_cells(RunToJoin& one) {
    std::map<std::string, int> added;
    for (CellRecord& record : one.run.cells) {
      const std::string label = label_of(record);
      int& most = added[label];
      most = std::max(most, record.cell.repetition);
      record.cell.repetition += repetitions_[label];
      put_in_front(one.folder, record.folder);
      put_in_front(one.folder, record.reference_folder);
      record_.cells.push_back(std::move(record));
    }
    for (const auto& [label, repetitions] : added) repetitions_[label] += repetitions;
  }

  void add_table(Table table, const std::string& name) {
    const auto key_of = [](const Table& one) {
      return std::tuple(one.scenario, one.world_size, one.spec.title);
    };
    if (tables_.contains(key_of(table))) table.spec.title += fmt::format(" ({})", name);
    tables_.insert(key_of(table));
    record_.tables.push_back(std::move(table));
  }

  void add_environment(const RunEnvironment& environment) {
    RunEnvironment& joined = record_.environment;
    joined.started_utc = std::min(joined.started_utc, environment.started_utc);
    joined.jobs = std::max(joined.jobs, environment.jobs);
  }

  RunRecord record_;
  std::map<std::string, int> titles_;       ///< of jobs
  std::map<std::string, int> repetitions_;  ///< of cells in the earlier runs
  /// Of scenario, size of the world and title.
  std::set<std::tuple<std::string, int, std::string>> tables_;
};

}  // namespace

RunRecord join_records(std::vector<RunToJoin> runs) {
  if (runs.empty()) return {};
  if (runs.size() == 1) return std::move(runs.front().run);
  JoinedRecord joined(runs);
  for (RunToJoin& one : runs) joined.add(std::move(one));
  return joined.take();
}

}  // namespace lockstep
