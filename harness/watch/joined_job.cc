#include "harness/watch/joined_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/record/environment.h"
#include "harness/record/journal.h"
#include "harness/record/manifest.h"
#include "harness/record/new_file.h"
#include "harness/record/new_job.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_files.h"
#include "harness/record/rank_status.h"
#include "harness/record/run_folder.h"
#include "harness/record/watch_control.h"
#include "reports/base/plain_text.h"
#include "reports/base/private_files.h"
#include "reports/base/secrets.h"
#include "reports/base/unique_fd.h"
#include "reports/base/usage_error.h"
#include "reports/record/json.h"
#include "reports/record/limits.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOpen = "not all of its ranks have ended their watch";
constexpr std::string_view kRecord = "record.json";

std::string string_of(const char* characters) { return characters ? characters : ""; }

Error refused(const fs::path& folder, std::string_view why, std::string_view remedy) {
  return unwritable(folder.string(), why, remedy);
}

void require_possible(const lockstep_watch_job& job) {
  constexpr std::string_view kWorld = "a whole number from 0 (not known) to 4096";
  static_assert(kMostRanksOfRecord == 4096);
  const int world = job.world_size;
  if (world < 0 || world > kMostRanksOfRecord) {
    throw bad_value("the world size", std::to_string(world), kWorld);
  }
  if (world > 0 && (job.rank < 0 || job.rank >= world)) {
    throw bad_value("the rank", std::to_string(job.rank),
                    fmt::format("a whole number from 0 to {}", world - 1));
  }
  if (job.agree_every < 0) {
    throw bad_value("agree_every", std::to_string(job.agree_every), "a whole number from 0 on");
  }
}

RunRecord record_of(const lockstep_watch_job& job) {
  // It is masked before it is cut: a part of a secret has no shape.
  const std::string title = beginning(mask_secrets(string_of(job.title)), kMostOfATitle);
  RunRecord run = record_of_new_job(title, job.agree_every);
  run.environment.lockstep_version = LOCKSTEP_VERSION;
  if (job.label) run.jobs[0].label = mask_secrets(job.label);
  run.jobs[0].world_size = job.world_size;
  run.jobs[0].unsealed = kOpen;
  return run;
}

/// Another rank may be making the same folder.
void require_unused(const fs::path& folder) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename();
    if (name != kJobFolder && !name.starts_with(kRecord)) throw not_empty(folder.string());
  }
}

int number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

bool has_ended(const fs::path& files, int rank) {
  return read_rank_status(rank_status_file(files, rank)).ended;
}

/// Whether the folder has files of an earlier process of this rank. One that does not know its rank
/// yet is taken for a later one if any rank has ended.
bool has_earlier(const fs::path& files, const lockstep_watch_job& job) {
  if (job.world_size > 0) {
    return has_journal(journal_file(files, job.rank)) ||
           fs::exists(rank_status_file(files, job.rank));
  }
  const std::vector<int> ranks = ranks_with_file(files, ".status.json");
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return has_ended(files, rank); });
}

/// Whether this process has joined a job in a folder: its next training is no other attempt.
bool is_joined_before(const fs::path& folder) {
  static std::mutex mutex;
  static std::set<fs::path> joined;
  const std::lock_guard lock(mutex);
  return !joined.insert(folder).second;
}

/// When a process began, in the system's ticks; empty: unknown.
std::string start_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // After the name, which may hold anything; the time is the 20th word then.
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  return word;
}

/// A file in the first attempt's folder, by which later ones know that the same launcher began
/// them: the id of torchrun's rendezvous, or the process that is the parent of the ranks of a
/// machine. Empty: the launcher begins no rank again.
std::string mark_of_launcher() {
  if (number_in("TORCHELASTIC_MAX_RESTARTS") < 1) return "";
  const char* const id = std::getenv("TORCHELASTIC_RUN_ID");
  const bool is_named = id && *id != '\0' && std::string_view(id) != "none";
  const std::string launcher =
      is_named ? id : fmt::format("{} {} {}", host_name(), ::getppid(), start_of(::getppid()));
  return fmt::format("launcher-{:016x}", std::hash<std::string>()(launcher));
}

/// The number of the attempt that this process belongs to, from 1. torchrun counts, on each
/// machine, only the attempts that failed there.
int number_of_attempt(const JobRecord& first, const fs::path& folder,
                      const lockstep_watch_job& job) {
  const bool is_joined = is_joined_before(folder);
  const std::string mark = mark_of_launcher();
  if (mark.empty() || !fs::exists(folder / first.folder / mark)) return 1;
  int number = std::max(number_in("TORCHELASTIC_RESTART_COUNT"), 0) + 1;
  while (!is_joined && has_earlier(folder / folder_of_attempt(first.folder, number), job)) ++number;
  return number;
}

Error earlier_job(const fs::path& folder) {
  return refused(folder, "it holds an earlier job, and results are never overwritten",
                 "Name a new folder");
}

void require_same(const JobRecord& found, const fs::path& folder, const lockstep_watch_job& job) {
  if (found.unsealed != kOpen) throw earlier_job(folder);
  const bool is_known = found.world_size > 0 && job.world_size > 0;
  if (is_known && found.world_size != job.world_size) {
    throw refused(folder,
                  fmt::format("its job has {}, and this one {}", counted(found.world_size, "rank"),
                              job.world_size),
                  "Name a new folder");
  }
  if (found.agree_every != job.agree_every) {
    throw refused(folder, "another rank began the job with another agree_every",
                  "Give all ranks the same one");
  }
}

/// The first attempt of a job.
const JobRecord& first_attempt(const JobRecord& job) {
  return job.earlier_attempts.empty() ? job : job.earlier_attempts[0];
}

/// The attempt of the job whose record is in the folder.
JobRecord joined(const fs::path& folder, const lockstep_watch_job& job) {
  const RunRecord run = load_record(folder);
  if (run.jobs.size() != 1 || !run.cells.empty() ||
      first_attempt(run.jobs[0]).folder != kJobFolder) {
    throw not_empty(folder.string());
  }
  const JobRecord& first = first_attempt(run.jobs[0]);
  const int number = number_of_attempt(first, folder, job);
  JobRecord attempt = attempt_of(first, number);
  if (has_earlier(folder / attempt.folder, job)) throw earlier_job(folder);
  if (number == 1) require_same(first, folder, job);  // others may have other numbers of ranks
  return attempt;
}

/// The number of the attempt with these files.
int number_in_name(const fs::path& files, const JobRecord& first) {
  const std::string name = files.filename();
  return std::max(std::atoi(name.c_str() + std::min(first.folder.size() + 1, name.size())), 1);
}

void make_files(const fs::path& files) {
  make_folders(files);
  WatchControl::create(files);
}

Readers readers_of(const lockstep_watch_job& job) {
  return job.is_group_readable != 0 ? Readers::group : Readers::owner;
}

/// `runs/<utc>`, which no other process has.
JoinedJob job_in_new_folder(const lockstep_watch_job& job) {
  const RunRecord run = record_of(job);
  const fs::path folder = make_run_folder("", run, readers_of(job));
  make_files(folder / kJobFolder);
  return {folder / kJobFolder, run.jobs[0].id};
}

}  // namespace

JoinedJob join_job(const lockstep_watch_job& job) {
  require_possible(job);
  const fs::path folder = string_of(job.folder);
  if (folder.empty()) return job_in_new_folder(job);
  if (!fs::exists(folder / kRecord)) {
    require_unused(folder);
    make_private_folder(folder, readers_of(job));
    write_new_file(folder / kRecord, render_json(record_of(job)));
  }
  const JobRecord attempt = joined(folder, job);
  make_files(folder / attempt.folder);
  if (const std::string mark = mark_of_launcher(); !mark.empty()) {
    write_new_file(folder / kJobFolder / mark, "");
  }
  return {folder / attempt.folder, attempt.id};
}

void begin_attempt(const fs::path& files) { make_files(files); }

void seal_if_all_ended(const fs::path& files, int world_size) {
  for (int rank = 0; rank < world_size; ++rank) {
    if (!has_ended(files, rank)) return;
  }
  // The last two ranks may see that at the same time. Where the file system has no locks, both
  // write the same bytes, each under a name of its own first.
  const UniqueFd lock(::open((files / "watch.control").c_str(), O_RDWR | O_CLOEXEC));
  static_cast<void>(::flock(lock.get(), LOCK_EX));
  const fs::path folder = files.parent_path();
  RunRecord run = load_record(folder);
  JobRecord& job = run.jobs.at(0);
  if (files.filename() != job.folder) {
    const JobRecord first = first_attempt(job);
    job = with_attempts(first, number_in_name(files, first));
    job.unsealed = kOpen;  // also if all ranks of the first one ended, by an error
    run.planned = counts_of(run);
  }
  if (job.unsealed != kOpen) return;
  job.manifest = write_manifest(files, world_size, execution_identity(job));
  job.unsealed.clear();
  save_record(folder, run);
}

}  // namespace lockstep
