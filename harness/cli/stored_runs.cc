#include "harness/cli/stored_runs.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "harness/job/going_on.h"
#include "harness/job/join_machines.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/usage_error.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/job_report.h"
#include "reports/record/run_record.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "record.json";

/// "12 variants of 3 scenarios", "2 variants of loss-on-unwrapped-module".
std::string title_of_cells(const RunRecord& run) {
  std::set<std::string> scenarios;
  std::set<std::pair<std::string, std::string>> variants;
  for (const CellRecord& record : run.cells) {
    scenarios.insert(record.cell.scenario);
    variants.emplace(record.cell.scenario, record.cell.variant);
  }
  return fmt::format(
      "{} of {}", counted(variants.size(), "variant"),
      scenarios.size() == 1 ? *scenarios.begin() : counted(scenarios.size(), "scenario"));
}

std::string title_of(const RunRecord& run) {
  if (!run.cells.empty()) return title_of_cells(run);
  if (run.jobs.empty() && !run.comparisons.empty()) return title_of(run.comparisons[0]);
  if (run.jobs.size() != 1) return counted(run.jobs.size(), "job");
  // Its ranks are unknown until it has ended.
  return run.jobs[0].world_size > 0 ? title_of(run.jobs[0]) : run.jobs[0].title;
}

std::string verdict_of_run(const RunRecord& run) {
  const bool is_of_jobs = run.cells.empty();
  const bool is_unseen = run.jobs.size() == 1 && run.jobs[0].world_size == 0;
  if (is_of_jobs && is_unseen) return "NOTHING OBSERVED";
  switch (exit_status(run)) {
    case ExitStatus::as_expected:
      if (run.jobs.empty() && is_of_jobs) return "as expected";
      if (is_of_jobs && std::ranges::all_of(run.jobs, is_recording)) return "recorded";
      return is_of_jobs ? "in lockstep" : "as expected";
    case ExitStatus::undecided:
      return "UNDECIDED";
    case ExitStatus::not_applicable:
      return "NOT RUN";
    default:
      return "FAILED";
  }
}

void describe_run(const fs::path& folder, StoredRun& stored) {
  const RunRecord run = load_record(folder);
  stored.started_utc = run.environment.started_utc;
  stored.title = title_of(run);
  stored.going_on = why_going_on(run, folder);
  stored.verdict = is_judged(run) ? verdict_of_run(run) : "not judged";
}

/// A folder that several machines share. None of them knows the verdict.
void describe_machines(const std::vector<fs::path>& machines, StoredRun& stored) {
  std::string going_on;
  for (const fs::path& machine : machines) {
    describe_run(machine, stored);
    if (going_on.empty()) going_on = stored.going_on;
  }
  stored.title += fmt::format(", on {}", counted(machines.size(), "machine"));
  stored.going_on = going_on;
  stored.verdict = "not judged";
}

StoredRun stored_run(const fs::path& folder) {
  StoredRun stored;
  stored.folder = folder;
  stored.bytes = bytes_on_disk(folder);
  try {
    const std::vector<fs::path> machines = folders_of_machines(folder);
    if (machines.empty()) {
      describe_run(folder, stored);
    } else {
      describe_machines(machines, stored);
    }
  } catch (const Error& error) {
    stored.fault = stored.title = error.what();
    stored.verdict = "BROKEN";
  }
  if (!stored.going_on.empty()) stored.verdict = "running";
  return stored;
}

bool is_before(const StoredRun& a, const StoredRun& b) {
  const auto place = [](const StoredRun& run) {
    return std::make_tuple(run.fault.empty(), run.started_utc, run.folder.filename().string());
  };
  return place(a) > place(b);
}

void require_folder_of_runs(const fs::path& runs) {
  constexpr const char* kRemedy = "Name the folder that holds the folders of runs";
  std::error_code failure;
  if (!fs::exists(runs, failure)) {
    throw unreadable(runs.string(), "there is no such folder", kRemedy);
  }
  if (!fs::is_directory(runs, failure)) throw unreadable(runs.string(), "it is a file", kRemedy);
  if (fs::exists(runs / kRecord, failure)) {
    throw unreadable(runs.string(), "it is the folder of a run itself", kRemedy);
  }
}

/// Seconds since 1970; empty for a record that says something else.
std::optional<std::int64_t> seconds_of(const std::string& utc) {
  std::tm time{};
  const char* const end = ::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &time);
  if (!end || *end != '\0') return {};
  return ::timegm(&time);
}

bool is_older(const StoredRun& run, std::int64_t days, std::int64_t now) {
  constexpr std::int64_t kDay = std::int64_t{24} * 3600;
  const auto started = seconds_of(run.started_utc);
  return started && (now - *started) / kDay >= days;
}

}  // namespace

std::uint64_t bytes_on_disk(const fs::path& folder) {
  constexpr std::uint64_t kBlock = 512;
  std::uint64_t bytes = 0;
  std::error_code failure;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, options, failure), end; at != end;
       at.increment(failure)) {
    struct stat status {};
    if (::lstat(at->path().c_str(), &status) != 0) continue;
    bytes += static_cast<std::uint64_t>(status.st_blocks) * kBlock;
  }
  return bytes;
}

std::vector<StoredRun> stored_runs(const fs::path& runs) {
  require_folder_of_runs(runs);
  std::vector<StoredRun> stored;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(runs, failure)) {
    if (fs::is_directory(entry.symlink_status())) stored.push_back(stored_run(entry.path()));
  }
  if (failure) throw unreadable(runs.string(), failure.message());
  std::sort(stored.begin(), stored.end(), is_before);
  return stored;
}

std::vector<StoredRun> runs_to_remove(const std::vector<StoredRun>& runs, const Pruning& pruning,
                                      std::int64_t now) {
  std::vector<StoredRun> removed;
  for (std::size_t i = 0; i < runs.size() && runs[i].fault.empty(); ++i) {
    if (pruning.keep && i < *pruning.keep) continue;
    if (pruning.older_than && !is_older(runs[i], *pruning.older_than, now)) continue;
    removed.push_back(runs[i]);
  }
  return removed;
}

void remove_run(const StoredRun& run) {
  std::error_code failure;
  const auto require = [&] {
    if (failure) throw unremovable(run.folder.string(), failure.message());
  };
  for (const auto& entry : fs::directory_iterator(run.folder, failure)) {
    if (entry.path().filename() == kRecord) continue;
    fs::remove_all(entry.path(), failure);
    require();
  }
  require();
  fs::remove_all(run.folder, failure);
  require();
}

}  // namespace lockstep
