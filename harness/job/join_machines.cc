#include "harness/job/join_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "harness/job/add_facts.h"
#include "harness/job/rank_facts.h"
#include "harness/job/stall.h"
#include "harness/record/run_folder.h"
#include "harness/record/stall.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Whether a run watched some ranks of a job.
bool is_part(const RunRecord& run) {
  return run.cells.empty() && run.jobs.size() == 1 && run.jobs[0].world_size > 0 &&
         !run.jobs[0].elsewhere.empty();
}

std::vector<int> ranks_here(const JobRecord& job) {
  std::vector<int> ranks;
  for (int rank = 0; rank < job.world_size; ++rank) {
    const bool is_here = !std::binary_search(job.elsewhere.begin(), job.elsewhere.end(), rank);
    if (is_here) ranks.push_back(rank);
  }
  return ranks;
}

/// Whether the ranks of another record are those that a job has on other machines.
bool are_missing(const JobRecord& other, const JobRecord& job) {
  const std::vector<int> ranks = ranks_here(other);
  return other.world_size == job.world_size &&
         std::includes(job.elsewhere.begin(), job.elsewhere.end(), ranks.begin(), ranks.end());
}

/// Whether a run may be about other ranks of the job.
bool belongs_to(const RunRecord& run, const JobRecord& job) {
  if (!is_part(run)) return false;
  const JobRecord& other = run.jobs[0];
  return other.rendezvous == job.rendezvous && other.agree_every == job.agree_every &&
         are_missing(other, job);
}

JobPart part_of(const fs::path& folder, const JobRecord& job) {
  return {job.id, (folder / job.folder).string(), ranks_here(job), job.manifest};
}

/// 0: none of both.
std::int64_t earlier(std::int64_t a, std::int64_t b) {
  return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b);
}

/// Of steps or names, ascending.
template <class One>
std::vector<One> those_of_both(const std::vector<One>& a, const std::vector<One>& b) {
  std::vector<One> both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

/// A claim that any machine makes: engines may divide the parameters of some ranks only.
void add_claims(const std::vector<Claim>& more, std::vector<Claim>& claims) {
  for (const Claim& claim : more) {
    if (std::find(claims.begin(), claims.end(), claim) == claims.end()) claims.push_back(claim);
  }
}

void add_machine(const fs::path& folder, const JobRecord& other, JobRecord& job) {
  JobPart part = part_of(folder, other);
  for (const int rank : part.ranks) {
    const auto place = static_cast<std::size_t>(rank);
    job.exits[place] = other.exits[place];
  }
  std::erase_if(job.elsewhere, [&](int rank) {
    return std::binary_search(part.ranks.begin(), part.ranks.end(), rank);
  });
  // Of several commands the one that failed counts.
  job.command_status = std::max(job.command_status, other.command_status);
  add_claims(other.claims, job.claims);
  add_facts(other.traffic, job.traffic);
  add_facts(other.traffic_in_steps, job.traffic_in_steps);
  add_facts(other.configuration, job.configuration);
  add_facts(other.precisions, job.precisions);
  for (Unreduced& one : job.unreduced) one.explains = false;  // until all are judged together
  std::vector<Unreduced> unreduced = other.unreduced;
  for (Unreduced& one : unreduced) one.explains = false;
  add_facts(unreduced, job.unreduced);
  add_facts(other.last_calls, job.last_calls);
  add_facts(other.joined, job.joined);
  add_facts(other.untrained, job.untrained);
  add_facts(other.broken_ties, job.broken_ties);
  job.divided_apart.insert(job.divided_apart.end(), other.divided_apart.begin(),
                           other.divided_apart.end());
  add_facts(other.parameter_orders, job.parameter_orders);
  add_facts(other.written_by, job.written_by);
  add_facts(other.optimizers, job.optimizers);
  add_facts(other.schedules, job.schedules);
  add_facts(other.devices, job.devices);
  add_facts(other.samplers, job.samplers);
  add_facts(other.frozen, job.frozen);
  add_facts(other.copies, job.copies);
  job.bystanders = those_of_both(job.bystanders, other.bystanders);
  add_memory(other.host_memory, job.host_memory);
  add_memory(other.device_memory, job.device_memory);
  add_facts(other.skipped_by, job.skipped_by);
  job.skipped_steps = those_of_both(job.skipped_steps, other.skipped_steps);
  job.thinned_after = earlier(job.thinned_after, other.thinned_after);
  job.calls_in_forward = most_calls(job.calls_in_forward, other.calls_in_forward);
  job.state_buffers = those_of_both(job.state_buffers, other.state_buffers);
  job.written_before = those_of_both(job.written_before, other.written_before);
  job.writes_known_until = std::min(job.writes_known_until, other.writes_known_until);
  job.perturbed = fewest_perturbed(job.perturbed, other.perturbed);
  job.captured_updates = std::max(job.captured_updates, other.captured_updates);
  if (job.unsealed.empty() && !other.unsealed.empty()) {
    job.unsealed = folder.string() + ": " + other.unsealed;
  }
  job.parts.push_back(std::move(part));
}

/// A rank that sleeps on one machine hangs those that wait for it on another.
void add_stalls(JobRecord& job) {
  std::vector<Stall> stalls;
  for (const JobPart& part : job.parts) {
    if (auto stall = read_stall(part.folder); stall && !stall->is_over) {
      stalls.push_back(std::move(*stall));
    }
  }
  const bool hangs = std::ranges::any_of(stalls, &Stall::has_waiting);
  const bool is_open = std::ranges::any_of(stalls, &Stall::is_open);
  for (const Stall& stall : stalls) add_stall(stall, hangs, job.exits);
  if (is_open && job.elsewhere.empty()) job.claims.push_back(collectives_match());
}

/// Two machines with other torches may compute other numbers.
void note_versions(const JoinedRun& other, RunRecord& run) {
  const std::string& first = run.environment.torch_version;
  const std::string& version = other.run.environment.torch_version;
  if (first == version || first.empty() || version.empty()) return;
  run.notes.push_back(fmt::format("the machines have different torches: {} and, in {}, {}", first,
                                  other.folders[0].string(), version));
}

/// Makes a job, or an earlier attempt, one of several machines.
void begin_joining(const fs::path& folder, JobRecord& job) {
  if (!job.parts.empty()) return;
  job.parts.push_back(part_of(folder, job));
  job.folder = job.parts[0].folder;
  job.manifest.reset();
  job.node.clear();
}

/// Earlier attempts of a job on another machine, if both saw the same ones.
void add_attempts(const JoinedRun& other, JoinedRun& joined) {
  const std::vector<JobRecord>& theirs = other.run.jobs[0].earlier_attempts;
  std::vector<JobRecord>& ours = joined.run.jobs[0].earlier_attempts;
  const bool are_the_same = std::equal(theirs.begin(), theirs.end(), ours.begin(), ours.end(),
                                       [](const JobRecord& their, const JobRecord& our) {
                                         return their.world_size > 0 && are_missing(their, our);
                                       });
  if (!are_the_same) {
    joined.run.notes.emplace_back(
        "the machines saw other attempts of the job before the last one: `lockstep report DIR` of "
        "each has them");
    ours.clear();
    return;
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    begin_joining(joined.folders[0], ours[i]);
    add_machine(other.folders[0], theirs[i], ours[i]);
  }
}

void add_run(const JoinedRun& other, JoinedRun& joined) {
  JobRecord& job = joined.run.jobs[0];
  begin_joining(joined.folders[0], job);
  add_machine(other.folders[0], other.run.jobs[0], job);
  add_attempts(other, joined);
  note_versions(other, joined.run);
  joined.folders.push_back(other.folders[0]);
}

}  // namespace

std::vector<JoinedRun> join_machines(std::vector<JoinedRun> runs) {
  std::vector<JoinedRun> joined;
  for (JoinedRun& run : runs) {
    const auto whole = std::find_if(joined.begin(), joined.end(), [&](const JoinedRun& other) {
      return is_part(other.run) && belongs_to(run.run, other.run.jobs[0]);
    });
    if (whole == joined.end()) {
      joined.push_back(std::move(run));
    } else {
      add_run(run, *whole);
    }
  }
  for (JoinedRun& one : joined) {
    if (one.folders.size() == 1) continue;
    add_stalls(one.run.jobs[0]);
    one.run.planned = counts_of(one.run);
  }
  return joined;
}

std::vector<fs::path> folders_of_machines(const fs::path& shared) {
  std::vector<fs::path> folders;
  std::error_code missing;
  if (fs::exists(shared / "record.json", missing)) return folders;
  for (const auto& entry : fs::directory_iterator(shared, missing)) {
    if (fs::exists(entry.path() / "record.json", missing)) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  const auto is_of_machine = [](const fs::path& folder) {
    const RunRecord run = load_record(folder);
    return run.jobs.size() == 1 && !run.jobs[0].node.empty();
  };
  const bool are_all = std::all_of(folders.begin(), folders.end(), is_of_machine);
  return are_all ? folders : std::vector<fs::path>();
}

}  // namespace lockstep
