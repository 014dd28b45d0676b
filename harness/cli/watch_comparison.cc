#include "harness/cli/watch_comparison.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "harness/diff/diff_keys.h"
#include "harness/diff/diff_runs.h"
#include "harness/diff/diff_words.h"
#include "harness/diff/job_comparison.h"
#include "harness/record/run_folder.h"
#include "harness/verdict/job_comparisons.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool has_finished(const RunRecord& run) {
  const std::vector<RankExit>& exits = run.jobs[0].exits;
  return !exits.empty() && all_finished(exits);
}

JobComparison undecided_comparison(ComparedWith with, const std::string& folder,
                                   const std::string& reason) {
  JobComparison comparison{with, folder, {}, reason};
  comparison.result.claim = claim_of(Compared::weight);
  comparison.result.reason = reason;
  return comparison;
}

/// The job has ended: a record that cannot be saved must not lose its verdict.
void store(JobComparison comparison, WatchedJob& watched) {
  JobRecord& job = watched.run.jobs[0];
  job.comparisons.push_back(comparison);
  JobRecord one = job;
  one.comparisons = {std::move(comparison)};
  add_comparisons(one);
  one.comparisons = job.comparisons;
  job = std::move(one);
  try {
    save_record(watched.folder, watched.run);
  } catch (const Error& error) {
    job.notes.push_back(std::string("its record was not saved: ") + error.what());
  }
}

}  // namespace

std::optional<ForeignDifference> difference_from(const NamedJob& reference,
                                                 const std::optional<KnownFindings>& known,
                                                 const JobRecord& job,
                                                 const std::filesystem::path& folder) {
  const SideFiles files(job, folder, folder.string());
  const DiffRecord diff = diff_runs(reference.files(), files, repetitions_of({&reference}), {});
  const bool is_known = known && known->lists_all(keys_of(diff));
  if (verdict_of(diff) != Verdict::violated || is_known) return std::nullopt;
  return ForeignDifference{
      first_different(diff)->other,
      fmt::format("compared with {}: {}", reference.files().shown(), verdict_in_words(diff))};
}

std::string compare_with(const NamedJob& reference, const std::string& shown, WatchedJob& watched,
                         std::size_t width) {
  try {
    const NamedJob job(watched.folder);
    const DiffRecord diff = diff_runs(reference.files(), job.files(),
                                      repetitions_of({&reference, &job}), DiffRequest());
    store(comparison_with_reference(diff, shown), watched);
    return "\n" + diff_in_words(diff, width);
  } catch (const Error& error) {
    const std::string text =
        fmt::format("The job was not compared: {}", printable_error(error.what()));
    store(undecided_comparison(ComparedWith::reference, shown, text), watched);
    return "\n" + text + "\n";
  }
}

void run_again(WatchRequest request, WatchedJob& first, std::size_t width) {
  if (!has_finished(first.run)) return say("The job is not run again: it did not finish.\n");
  say("\nlockstep: the job runs again, to measure what does not reproduce\n");
  const std::filesystem::path folder = std::filesystem::path(first.folder) / kRepetitionFolder;
  request.out = folder.string();
  watch_job(request, LOCKSTEP_VERSION);
  JobComparison comparison;
  try {
    const NamedJob one(first.folder), again(folder.string());
    const DiffRecord diff = diff_runs(one.files(), again.files(), {}, DiffRequest());
    comparison = comparison_with_repetition(diff, kRepetitionFolder);
  } catch (const Error& error) {
    comparison = undecided_comparison(
        ComparedWith::repetition, kRepetitionFolder,
        fmt::format("The second run was not compared: {}", printable_error(error.what())));
  }
  say(wrapped(comparison.sentence, 0, 2, width));
  store(std::move(comparison), first);
}

}  // namespace lockstep
