#include "harness/validate/validated_jobs.h"

#include <fmt/format.h>

#include "harness/job/watch_job.h"
#include "harness/record/run_folder.h"
#include "harness/validate/reused_run.h"
#include "reports/base/plain_text.h"
#include "reports/formats/job_report.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

std::string title_of_script(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    if (fs::path(word).extension() == ".py") return word;
  }
  return command.front();
}

/// Takes up a run whose files lie in `root`. `shown`: the folder as the user knows it.
void take_up(const JobRecord& record, const fs::path& root, const std::string& shown, RanJob& job) {
  job.record = record;
  job.files = std::make_unique<SideFiles>(record, root, shown);
  job.execution = read_execution(root / record.folder);
}

}  // namespace

ValidatedJobs::Key ValidatedJobs::key_of(const JobWish& wish) {
  return {{wish.state.title, wish.state.top.string(), wish.has_modules ? "modules" : "",
           fmt::format("{} {}", wish.start, wish.until), wish.lines.string()},
          wish.command};
}

const RanJob& ValidatedJobs::ran(const JobWish& wish) {
  const auto [place, is_new] = jobs_.try_emplace(key_of(wish));
  if (!is_new) return place->second;
  RanJob& job = place->second;
  run(wish, job);
  tell(wish, job.record, "output: " + job.files->shown() + ".log");
  return job;
}

const RanJob& ValidatedJobs::ran_or_reused(const JobWish& wish, const RanJob& beside) {
  const fs::path earlier = fs::path(request_.reuse) / folder_of(wish.cell) / wish.role;
  if (request_.reuse.empty() || jobs_.contains(key_of(wish))) return ran(wish);
  const std::string shown = earlier.lexically_normal().string();
  const ReusedRun reused =
      reused_run(shown, {wish.command, wish.state, request_.seed, beside.execution});
  if (!reused.run) {
    request_.say(fmt::format("{} runs again: {}", wish.role, reused.why_not));
    return ran(wish);
  }
  RanJob& job = jobs_[key_of(wish)];
  take_up(reused.run->jobs.front(), fs::absolute(shown), shown, job);
  tell(wish, job.record, "the run in " + shown);
  notes.push_back(fmt::format("{} is the run in {}", wish.role, shown));
  return job;
}

void ValidatedJobs::run(const JobWish& wish, RanJob& job) const {
  WatchRequest request;
  request.job = wish.command;
  request.command = wish.command;
  request.label = fmt::format("{} of {}", title_of_script(wish.command), wish.state.title);
  request.has_data = true;
  request.has_modules = wish.has_modules;
  request.start = wish.start;
  request.until = wish.until;
  request.stall_s = request_.stall_s;
  request.ends_stalled = true;
  request.keep_bytes = std::uint64_t{256} << 20;
  request.history_bytes = std::uint64_t{1024} << 20;
  request.out =
      (fs::path(request_.folder) / folder_of(wish.cell) / wish.role).lexically_normal().string();
  make_folders(fs::path(request.out).parent_path());
  request.place = {wish.state.folder, fs::absolute(request.out + ".log")};
  request.variables = wish.state.variables;
  request.variables.emplace_back("PYTHONDONTWRITEBYTECODE", "1");  // a checkout stays as it is
  request.sources = wish.state.sources;
  request.lines = wish.lines;
  request.seed = request_.seed;
  const WatchedJob watched = watch_job(request, version_);
  take_up(watched.run.jobs[0], fs::absolute(watched.folder), watched.folder, job);
}

void ValidatedJobs::tell(const JobWish& wish, const JobRecord& job, const std::string& place) {
  ++done_;
  const std::string where = wish.cell.empty() ? "" : ", " + in_words(wish.cell);
  request_.say(fmt::format("{} of {}: {}{}: {} ({:.1f} s, {})", done_, planned_, wish.role, where,
                           heading_of(job), job.duration_s, place));
  if (done_ != 1 || planned_ == 1) return;
  request_.say(fmt::format("about {:.0f} s in all, if the others take as long",
                           job.duration_s * static_cast<double>(planned_)));
}

}  // namespace lockstep
