#include "harness/job/watch_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "harness/job/attempts.h"
#include "harness/job/job_process.h"
#include "harness/job/job_progress.h"
#include "harness/job/job_record.h"
#include "harness/job/journal_thinner.h"
#include "harness/job/observing_switch.h"
#include "harness/job/rank_facts.h"
#include "harness/job/rank_follower.h"
#include "harness/job/stall.h"
#include "harness/job/stall_watch.h"
#include "harness/job/step_pace.h"
#include "harness/job/watched_variables.h"
#include "harness/judge/wrong_values.h"
#include "harness/launch/interruption.h"
#include "harness/launch/launcher.h"
#include "harness/record/folder_lock.h"
#include "harness/record/new_job.h"
#include "harness/record/run_folder.h"
#include "harness/record/watch_control.h"
#include "harness/record/watched_progress.h"
#include "harness/verdict/judge_run.h"
#include "reports/base/error.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// For ranks that were asked to end.
constexpr std::chrono::seconds kGrace(10);

/// Reductions are judged again after so many times as many steps.
constexpr std::int64_t kMoreReductions = 16;

/// What the parent does while an attempt of the job runs.
class Meanwhile {
 public:
  Meanwhile(const WatchRequest& request, RunRecord begun, const fs::path& folder,
            const JobProcess& process)
      : request_(request),
        run_(std::move(begun)),
        folder_(folder),
        process_(process),
        follower_(folder / run_.jobs[0].folder),
        control_(folder / run_.jobs[0].folder),
        stalls_(folder / run_.jobs[0].folder, request.stall_s, !request.node.empty(), control_),
        switch_(folder, !request.begins_off, control_),
        thinner_(folder / run_.jobs[0].folder, control_) {}

  void look() {
    follower_.look();
    look_for_stall();
    const std::int64_t begun = std::max(follower_.last_step(), stalls_.last_step());
    const std::int64_t ahead = pace_.steps_ahead(begun);
    if (begun == 0 || pace_.is_known()) {
      const std::string switched = switch_.look(begun, ahead);
      if (!switched.empty()) say(switched);
    }
    const bool may_have_failed = follower_.diverged() || follower_.has_new_non_finite();
    if (!failed_ && may_have_failed && follower_.last_step() >= next_check_) {
      next_check_ = after(follower_.last_step());
      try_to_confirm();
    } else if (!failed_ && follower_.first_step() >= next_reductions_) {
      next_reductions_ = kMoreReductions * follower_.first_step();
      try_to_confirm();
    }
    compare();
    // Another job is compared by rows.
    if (!request_.compare) thinner_.look(follower_, begun - follower_.last_step() + ahead);
    if ((failed_ || foreign_) && request_.fails_fast && !has_ended_job_ && is_time_to_end()) {
      has_ended_job_ = true;
      process_.terminate();
    }
    if (follower_.ranks() > 0) progress_.show(in_words(), JobProgress::Clock::now());
  }

  /// Once the command has ended: a launcher may leave ranks behind that hang.
  void finish() {
    look_for_stall();
    if (killed_since_) stalls_.kill_ranks();
  }

  /// Whether `--fail-fast` or `--on-stall kill` ended the job.
  bool has_ended_job() const { return has_ended_job_; }

 private:
  void try_to_confirm() {
    try {
      confirm();
    } catch (const std::exception&) {  // the ranks are writing; the report reads the files again
    }
  }

  /// Indices that differ may be those of ranks that hold different tensors, and a mask is infinite:
  /// the judge decides. Its user hears of a fault at once: the job may go on for days.
  void confirm() {
    RunRecord run = run_;
    add_ranks(run.jobs[0], folder_, {});
    judge_run(run, folder_, {});
    const JobRecord judged = without_known(run.jobs[0], request_.known);
    const Finding* const first = first_fault_of_values(judged);
    if (!first) return tell_reduction(judged);
    const bool is_open =
        first->claim.kind == Kind::gradient && first->step > follower_.first_step();
    if (!has_asked_ && (!is_open || is_hardly_reduced_in_step(judged))) ask_to_keep();
    if (is_open) {
      next_check_ = first->step + 1;
      return;
    }
    failed_ = fault_in_words(*first);
    say(fmt::format("{}: {}", *failed_, first->tensor));
  }

  /// Ranks that agree on wrong gradients show nothing in their indices.
  void tell_reduction(const JobRecord& judged) {
    if (!first_finding(judged.results, Predicate::reduce_over_ranks)) return;
    failed_ = judged.symptom.text;
    say(*failed_);
  }

  /// Gradients that differ before a step may be reduced inside it, as far as a step that has not
  /// ended shows. A rank then stores values in vain, so it only does if its user wants those of the
  /// first difference, or if no collective was called inside the steps before.
  bool is_hardly_reduced_in_step(const JobRecord& job) const {
    const auto& inside = job.traffic_in_steps;
    return request_.keeps_before ||
           (!inside.empty() && std::ranges::all_of(inside, [](const Traffic& traffic) {
             return traffic.collectives == 0;
           }));
  }

  static std::string fault_in_words(const Finding& fault) {
    return fault.claim.predicate == Predicate::stay_finite
               ? fmt::format("{} became not finite in step {}", plural(*fault.claim.kind),
                             fault.step)
               : fmt::format("ranks differ from step {} on", fault.step);
  }

  void ask_to_keep() {
    has_asked_ = true;
    control_.ask_to_keep();
    asked_at_ = follower_.last_step();
    asked_since_ = std::chrono::steady_clock::now();
  }

  /// With another job. The ranks store values from the first difference on.
  void compare() {
    if (!request_.compare || foreign_ || follower_.first_step() < next_comparison_) return;
    next_comparison_ = after(follower_.first_step());
    try {
      RunRecord run = run_;
      add_ranks(run.jobs[0], folder_, {});
      const auto found = request_.compare(run.jobs[0], folder_);
      if (!found) return;
      foreign_ = found->step;
      say(found->sentence);
      ask_to_keep();
    } catch (const std::exception&) {  // the ranks are writing; the end compares the files again
    }
  }

  /// The ranks store the values of the steps that they are in first. A rank that no longer trains
  /// will not.
  bool is_time_to_end() const {
    constexpr std::chrono::seconds kLongest(60);
    // One rank may be a step ahead of the others, which have not stored theirs yet.
    return follower_.first_step() > asked_at_ || follower_.last_step() > asked_at_ + 1 ||
           std::chrono::steady_clock::now() - asked_since_ > kLongest;
  }

  /// Files that are twice as long cost twice as much to judge.
  static std::int64_t after(std::int64_t step) { return 2 * std::max<std::int64_t>(step, 1); }

  void look_for_stall() {
    try {
      if (has_ended_job_) {
        // What its ranks do at their end is no progress.
      } else if (const auto stall = stalls_.look()) {
        tell(*stall);
      } else if (is_stalled_ && request_.ends_stalled && has_hung_elsewhere()) {
        say("ranks of another machine wait in a collective");
        end_stalled();
      }
    } catch (const std::exception& error) {
      say(fmt::format("no rank is seen to make progress, and where they are is unknown: {}",
                      error.what()));
    }
    if (killed_since_ && std::chrono::steady_clock::now() - *killed_since_ > kGrace) {
      stalls_.kill_ranks();
    }
  }

  /// The job goes on to its own limit, so that its user sees the reason before.
  void tell(const Stall& stall) {
    is_stalled_ = !stall.is_over;
    if (stall.is_over) return say("the ranks make progress again");
    RunRecord run = run_;
    JobRecord& job = run.jobs[0];
    add_ranks(job, folder_, {});
    judge_run(run, folder_, {});
    const bool hangs = has_hung(job);
    const auto facts = read_all_facts(folder_ / job.folder);
    const bool is_one_unseen = std::any_of(facts.begin(), facts.end(), [](const auto& one) {
      return !one.second.failure.empty();  // and may train on, for all that is known
    });
    say(fmt::format("no rank{} began a step or called a collective for {:.3g} s{}",
                    is_one_unseen ? " that is still observed" : "", stall.limit_s,
                    hangs ? ": " + job.symptom.text : ""));
    for (const RankExit& end : job.exits) {
      if (!end.detail.empty()) say(fmt::format("  rank {}: {}", end.rank, end.detail));
    }
    if (hangs && request_.ends_stalled) end_stalled();
  }

  void end_stalled() {
    has_ended_job_ = true;
    killed_since_ = std::chrono::steady_clock::now();
    process_.terminate();
  }

  /// Whether ranks of another machine, in the shared folder, wait for others.
  bool has_hung_elsewhere() const {
    if (request_.node.empty()) return false;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder_.parent_path(), missing)) {
      const auto stall = read_stall(entry.path() / run_.jobs[0].folder);
      if (stall && stall->has_waiting() && !stall->is_over) return true;
    }
    return false;
  }

  void say(const std::string& sentence) { fmt::print(stderr, "lockstep: {}\n", sentence); }

  std::string in_words() const {
    const std::string agreed =
        failed_ ? *failed_ : fmt::format("ranks agree up to step {}", follower_.first_step());
    return fmt::format("lockstep: step {}, {} of {} ranks, {}", follower_.last_step(),
                       follower_.ranks(), follower_.world_size(), agreed);
  }

  const WatchRequest& request_;
  const RunRecord run_;
  const fs::path& folder_;
  const JobProcess& process_;
  RankFollower follower_;
  WatchControl control_;
  StallWatch stalls_;
  ObservingSwitch switch_;
  StepPace pace_;
  JournalThinner thinner_;
  std::optional<std::chrono::steady_clock::time_point> killed_since_;
  JobProgress progress_{JobProgress::Clock::now()};
  std::optional<std::string> failed_;    ///< the first fault of values, in words
  std::optional<std::int64_t> foreign_;  ///< step from which on it differs from another job
  std::int64_t next_check_ = 0;          ///< step
  std::int64_t next_reductions_ = 4;     ///< step, after the first ones with contributions
  std::int64_t next_comparison_ = 1;     ///< step that all ranks have ended
  std::int64_t asked_at_ = 0;  ///< step that had ended when the ranks were asked to keep values
  std::chrono::steady_clock::time_point asked_since_;
  bool has_asked_ = false;  ///< the ranks to keep values
  bool is_stalled_ = false;
  bool has_ended_job_ = false;
};

/// The attempts of a job, of which the last one runs.
class Attempts {
 public:
  Attempts(const WatchRequest& request, const RunRecord& begun, const fs::path& folder,
           const JobProcess& process)
      : request_(request), begun_(begun), folder_(folder), process_(process) {
    begin(1);
  }

  void look() {
    if (const int number = count_attempts(begun_.jobs[0], folder_); number > number_) {
      begin(number);
      fmt::print(stderr, "lockstep: attempt {}: the launcher has begun the ranks again\n", number);
    }
    meanwhile_->look();
  }

  void finish() { meanwhile_->finish(); }

  bool has_ended_job() const { return meanwhile_->has_ended_job(); }

 private:
  void begin(int number) {
    meanwhile_.reset();  // its title of the terminal, too
    RunRecord attempt = begun_;
    attempt.jobs[0] = attempt_of(begun_.jobs[0], number);
    meanwhile_.emplace(request_, std::move(attempt), folder_, process_);
    number_ = number;
  }

  const WatchRequest& request_;
  const RunRecord& begun_;
  const fs::path& folder_;
  const JobProcess& process_;
  std::optional<Meanwhile> meanwhile_;
  int number_ = 0;
};

/// A launcher may end a moment before its ranks. Those that train on are not waited for.
void wait_for_last_ranks(const fs::path& files) {
  constexpr std::chrono::seconds kLongest(3);
  const auto begin = std::chrono::steady_clock::now();
  const auto have_ended = [&] {
    return std::ranges::none_of(read_all_progress(files),
                                [](const auto& rank) { return trains_on(rank.second); });
  };
  while (!have_ended() && std::chrono::steady_clock::now() - begin < kLongest) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// The job has ended: a record that cannot be saved must not lose its verdict and its status.
void save(RunRecord& run, const fs::path& folder) {
  try {
    save_record(folder, run);
  } catch (const Error& error) {
    run.jobs[0].unsealed = error.what();
    run.jobs[0].notes.push_back(std::string("its record was not saved: ") + error.what());
  }
}

/// Before a folder is made, which would be the latest run.
void require_program(const std::string& name) {
  if (!std::getenv("PATH") || !find_program(name).empty()) return;
  const bool is_there = name.find('/') != name.npos && fs::exists(name);
  throw cannot_start(name, std::strerror(is_there ? EACCES : ENOENT));
}

}  // namespace

WatchedJob watch_job(const WatchRequest& request, const std::string& version) {
  const HookFiles hook = find_hook();
  if (request.place.folder.empty()) require_program(request.job.front());
  RunRecord run = record_of_job(request);
  run.environment.lockstep_version = version;
  fs::path asked = request.out;
  if (!request.node.empty()) asked /= request.node;
  if (!request.node.empty()) make_private_folder(request.out, request.readers);
  const fs::path shown = make_run_folder(asked.string(), run, request.readers);
  const fs::path folder = fs::absolute(shown);
  const FolderLock lock(folder);
  const fs::path files = folder / run.jobs[0].folder;
  make_folders(files);
  WatchControl::create(files);
  const auto variables = watched_variables(request, hook, files, run.jobs[0].id);

  const Interruption interruption;
  const auto begin = std::chrono::steady_clock::now();
  JobProcess process(request.job, variables, request.place);
  JobEnd end;
  {
    Attempts attempts(request, run, folder, process);
    end = process.wait([&] { attempts.look(); });
    attempts.finish();
    end.is_cut = attempts.has_ended_job();
  }
  try {
    const int attempts = count_attempts(run.jobs[0], folder);
    wait_for_last_ranks(folder / folder_of_attempt(run.jobs[0].folder, attempts));
    run.jobs[0].duration_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    add_attempts(run.jobs[0], folder, end);
    run.planned = counts_of(run);  // the claims follow from what the ranks observed
    run.environment.torch_version = torch_of(folder / run.jobs[0].folder);
    judge_run(run, folder, {.fills_charts = request.fills_charts});
  } catch (...) {  // the job has ended, and its status must not be lost
    run.jobs[0].unsealed = caught_error().what();
  }
  save(run, folder);
  return {shown.string(), std::move(run), end};
}

}  // namespace lockstep
