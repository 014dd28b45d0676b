#include "harness/job/job_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/job/expected_error.h"
#include "harness/job/facts_of_job.h"
#include "harness/job/process_notes.h"
#include "harness/job/rank_end.h"
#include "harness/job/rank_facts.h"
#include "harness/job/stall.h"
#include "harness/record/environment.h"
#include "harness/record/journal.h"
#include "harness/record/manifest.h"
#include "harness/record/new_job.h"
#include "harness/record/process_identity.h"
#include "harness/record/rank_status.h"
#include "harness/record/step_index.h"
#include "harness/record/texts_of_ranks.h"
#include "harness/record/watched_progress.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/secrets.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// The claims that the observations of a job allow: an engine that divides the parameters of an
/// optimizer leaves nothing to compare but the parameters that it copies to all ranks.
std::vector<Claim> claims_of(const JobRecord& job, const std::map<int, RankFacts>& facts) {
  std::vector<Claim> claims = claims_of_jobs(job.agree_every);
  const bool has_copies = std::any_of(facts.begin(), facts.end(),
                                      [](const auto& rank) { return rank.second.has_copies; });
  if (job.agree_every > 0 || !has_copies) return claims;
  const Claim copies = agree_across_ranks(Kind::parameter, Phase::pre_step);
  const bool has_only_copies = std::all_of(
      facts.begin(), facts.end(), [](const auto& rank) { return rank.second.has_only_copies; });
  if (has_only_copies) {
    return {copies, stay_finite(Kind::parameter, Phase::post_step), ranks_finish()};
  }
  claims.push_back(copies);
  return claims;
}

/// Steps after which all ranks average their parameters, as torch's averagers do; 0: not all ranks
/// do, or after other numbers of steps.
std::int64_t steps_between_averages(const std::map<int, RankFacts>& facts) {
  if (facts.empty()) return 0;
  const std::int64_t first = facts.begin()->second.agree_every;
  const bool is_of_all = std::all_of(
      facts.begin(), facts.end(), [&](const auto& one) { return one.second.agree_every == first; });
  return is_of_all ? first : 0;
}

/// The last step that a rank has written, as far as its index can be read: a rank that is killed at
/// its start, or that finds the disk full, leaves an empty one. The judge tells its fault.
IndexedStep last_step_of(const fs::path& folder, int rank) {
  const fs::path index = index_file(journal_file(folder, rank));
  if (!fs::exists(index)) return {};
  try {
    const StepIndex read = read_step_index(index);
    return read.steps.empty() ? IndexedStep() : read.steps.back();
  } catch (const Error&) {
    return {};
  }
}

/// Whether values after the update were observed.
bool is_after_update(const StepSummary& step) {
  return std::ranges::any_of(step.groups, [](const auto& group) {
    return group.second[static_cast<std::size_t>(Phase::post_step)] != Digest();
  });
}

/// The state of a rank in a stall that was not over; absent: it was in none.
std::optional<StalledState> state_in(const std::optional<Stall>& stall, int rank) {
  if (!stall || stall->is_over) return std::nullopt;
  const auto at = std::find_if(stall->ranks.begin(), stall->ranks.end(),
                               [&](const StalledRank& one) { return one.rank == rank; });
  return at == stall->ranks.end() ? std::nullopt : std::optional(at->state);
}

RankEndFacts end_facts_of(const fs::path& files, int rank, const RankFacts* known) {
  RankEndFacts facts;
  facts.rank = rank;
  facts.status = read_rank_status(rank_status_file(files, rank));
  const IndexedStep last = last_step_of(files, rank);
  facts.last_step = last.step;
  facts.is_last_updated = is_after_update(last.summary);
  if (RankStack stack = read_stack(files, rank); stack.has_aborted) {
    facts.aborted_in = std::move(stack.place);
    facts.aborted_call = collective_in(stack.frames);
    facts.stack = std::move(stack.frames);
  }
  if (!known) return facts;
  facts.hook_failure = known->failure;
  facts.error_place = known->error_place;
  facts.error_part = known->error_part;
  if (!known->error_stack.empty()) facts.stack = known->error_stack;
  facts.last_call = known->last_call;
  facts.moved = known->elsewhere;
  return facts;
}

/// The number of ranks, and which of them run on other machines.
void find_ranks(JobRecord& job, const std::map<int, RankFacts>& facts,
                const std::map<int, WatchedProgress>& progress) {
  std::vector<RanksOfMachine> here;
  std::set<int> known;
  const auto add = [&](int rank, const auto& one) {
    job.world_size = std::max(job.world_size, one.world_size);
    job.rendezvous = std::max(job.rendezvous, one.rendezvous);
    here.push_back(one.machine);
    known.insert(rank);
  };
  for (const auto& [rank, one] : facts) add(rank, one);
  for (const auto& [rank, one] : progress) add(rank, one);
  job.processes = job.world_size;
  for (int rank = 0; rank < job.world_size; ++rank) {
    if (known.contains(rank)) continue;
    const bool is_elsewhere =
        !job.node.empty() || std::all_of(here.begin(), here.end(), [&](const auto& machine) {
          return machine.excludes(rank);
        });
    if (is_elsewhere) job.elsewhere.push_back(rank);
  }
}

/// A job that no process watches is sealed by its ranks, which say so in its record.
void seal(JobRecord& job, const fs::path& files, bool has_ended) {
  if (!has_ended) {
    if (job.unsealed.empty() && !job.manifest) job.unsealed = "the watch of the job has not ended";
    return;
  }
  if (const std::size_t count = job.left_running.size(); count > 0) {
    job.unsealed = fmt::format("the command has ended, and {} still train{}",
                               counted(count, "rank"), count == 1 ? "s" : "");
    return;
  }
  job.unsealed.clear();
  try {
    mask_texts_of_ranks(files);
    job.manifest = write_manifest(files, job.processes, execution_identity(job));
  } catch (const Error& error) {
    job.unsealed = error.what();
  }
}

/// Of a job of which no rank is known: whoever removed its files removed what the ranks wrote.
void note_lost_files(JobRecord& job, const fs::path& files) {
  std::error_code failure;
  const fs::directory_iterator any(files, failure);
  if (!failure) return;
  job.unsealed =
      fmt::format("what its ranks wrote cannot be read: {}: {}", files.string(), failure.message());
}

/// Where the training script of a command is: after its launchers and their options. The number of
/// words if there is none.
std::size_t place_of_script(const std::vector<std::string>& command) {
  const auto script = std::ranges::find_if(
      command, [](const std::string& word) { return fs::path(word).extension() == ".py"; });
  return static_cast<std::size_t>(script - command.begin());
}

/// The training script of a command and its arguments; without one the whole command. Programs are
/// named without their folders, which are those of an environment. The whole command is on record.
std::string title_of_command(std::vector<std::string> command) {
  const std::size_t script = place_of_script(command);
  command = mask_command(std::move(command));  // before it is cut off
  if (script < command.size())
    command.erase(command.begin(), command.begin() + std::ptrdiff_t(script));
  if (!command.empty() && fs::path(command[0]).is_absolute()) {
    command[0] = fs::path(command[0]).filename();
  }
  const std::string title = fmt::format("{}", fmt::join(command, " "));
  return beginning(title, kMostOfATitle);
}

/// In keys of findings: its training script, or the module or program that it runs. The folder of
/// an absolute path is another one on another machine.
std::string label_of_command(const std::vector<std::string>& command) {
  if (command.empty()) return "";
  const std::size_t script = place_of_script(command);
  const auto module = std::ranges::find(command, "-m");
  if (script == command.size() && module != command.end() && module + 1 != command.end()) {
    return *(module + 1);
  }
  const fs::path program = command[script < command.size() ? script : 0];
  return program.is_absolute() ? program.filename() : program;
}

/// Of a rank that ended before its first step.
void take_error(const ErrorWithoutStep& error, RankEndFacts& end) {
  if (end.status.ended || end.status.raised || end.last_step > 0) return;
  end.status.ended = end.status.raised = true;
  end.status.error = error.error;
  end.error_place = error.place;
  end.stack = error.stack;
}

/// What others than a rank know of its end.
struct SeenEnds {
  const std::map<int, WatchedProgress>& progress;
  const std::optional<Stall>& stall;
  const std::map<std::int64_t, ErrorWithoutStep>& errors;
  std::map<std::int64_t, int> signals;
  const std::optional<JobEnd>& end;
};

void add_seen(const SeenEnds& seen, RankEndFacts& rank) {
  rank.job = seen.end;
  rank.stalled = state_in(seen.stall, rank.rank);
  const auto running = seen.progress.find(rank.rank);
  if (running == seen.progress.end()) return;
  const std::int64_t process = running->second.pid;
  rank.peak_bytes = running->second.peak_bytes;
  if (const auto signal = seen.signals.find(process); signal != seen.signals.end()) {
    rank.signal = signal->second;
  }
  if (const auto error = seen.errors.find(process); error != seen.errors.end()) {
    take_error(error->second, rank);
  }
  // A launcher that dies leaves ranks behind, whose files still grow.
  rank.trains_on = seen.end && trains_on(running->second);
}

/// How each rank ended, and which of them still train although the command ended.
void take_exits(JobRecord& job, const fs::path& files, const std::map<int, RankFacts>& facts,
                const SeenEnds& seen) {
  std::vector<RankEndFacts> ends;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const auto known = facts.find(rank);
    RankEndFacts& one = ends.emplace_back(
        end_facts_of(files, rank, known == facts.end() ? nullptr : &known->second));
    add_seen(seen, one);
    if (one.trains_on) job.left_running.push_back(rank);
  }
  for (const int rank : job.elsewhere) {
    ends[static_cast<std::size_t>(rank)].is_on_other_machine = true;
  }
  const bool raised = std::ranges::any_of(ends, has_raised);
  const bool killed = std::ranges::any_of(ends, was_killed);
  for (RankEndFacts& one : ends) {
    one.has_peer_raised = raised;
    one.has_peer_been_killed = killed;
    job.exits.push_back(exit_of_rank(one));
  }
}

/// Whether no rank tells why some of them disappeared, or why the command failed after all had
/// finished: the process that started them, as Ray's workers, may have been given the error.
bool is_unexplained(const JobRecord& job) {
  if (all_finished(job.exits)) return job.command_status.value_or(0) != 0;
  const auto tells = [](const RankExit& end) {
    return end.kind == ExitKind::raised || end.kind == ExitKind::signalled;
  };
  const auto has_disappeared = [](const RankExit& end) {
    return end.kind == ExitKind::unfinished && end.cause == ExitCause::unseen;
  };
  return std::ranges::none_of(job.exits, tells) && std::ranges::any_of(job.exits, has_disappeared);
}

void take_stall(JobRecord& job, const Stall& stall) {
  const bool hangs = stall.has_waiting() && !stall.is_over;
  add_stall(stall, hangs, job.exits);
  if (hangs && stall.is_open && job.elsewhere.empty()) job.claims.push_back(collectives_match());
}

}  // namespace

RunRecord record_of_job(const WatchRequest& request) {
  const std::string title =
      request.label.empty() ? title_of_command(request.job) : mask_secrets(request.label);
  RunRecord run = record_of_new_job(title, request.agree_every);
  run.command = mask_command(request.command);
  if (request.label.empty()) run.jobs[0].label = mask_secrets(label_of_command(request.job));
  run.jobs[0].node = request.node;
  run.jobs[0].demands = {request.expected, request.min_steps, request.is_strict, request.error};
  return run;
}

void add_ranks(JobRecord& job, const fs::path& folder, const std::optional<JobEnd>& end) {
  const fs::path files = folder / job.folder;
  job.exits.clear();
  job.elsewhere.clear();
  job.left_running.clear();
  job.world_size = job.processes = 0;
  if (end) job.command_status = end->status;
  job.rendezvous = 0;
  const std::map<int, RankFacts> facts = read_all_facts(files);
  const std::map<int, WatchedProgress> progress = read_all_progress(files);
  find_ranks(job, facts, progress);
  const std::optional<Stall> stall = read_stall(files);
  const auto errors = errors_without_step(files);
  take_exits(job, files, facts, {progress, stall, errors, signals_of_processes(files), end});
  if (job.agree_every == 0) job.agree_every = steps_between_averages(facts);
  job.claims = claims_of(job, facts);
  if (stall) take_stall(job, *stall);
  take_facts(job, facts);
  take_bystanders(job, facts, bystanders_in(files));
  job.command_error = facts.empty() || is_unexplained(job) ? first_error(errors) : "";
  job.reach = facts.empty() && end ? reach_of_processes(files) : Reach::unknown;
  job.has_expected_error = has_expected_error(job);
  if (job.processes > 0) {
    seal(job, files, end.has_value());
  } else if (end) {
    note_lost_files(job, files);
  }
}

std::string torch_of(const fs::path& files) {
  const auto facts = read_all_facts(files);
  return facts.empty() ? "" : facts.begin()->second.torch;
}

int exit_of(const JobRecord& job, const JobEnd& end, const std::vector<Comparison>& comparisons) {
  ExitStatus status = status_of(job);
  for (const Comparison& one : comparisons) status = worse(status, status_of(one));
  if (job.demands.expected) {
    return static_cast<int>(end.interrupted_by != 0 ? exit_status_of_signal(end.interrupted_by)
                                                    : status);
  }
  if (end.status != 0 && !end.is_cut) return end.status;
  if (!job.node.empty() && status != ExitStatus::failed) return 0;  // the others decide
  return static_cast<int>(status);
}

}  // namespace lockstep
