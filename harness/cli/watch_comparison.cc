#include "harness/cli/watch_comparison.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "harness/diff/diff_runs.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_report.h"
#include "reports/comparison/comparison_words.h"
#include "reports/comparison/conclude.h"
#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool has_finished(const RunRecord& run) {
  const std::vector<RankExit>& exits = run.jobs[0].exits;
  return !exits.empty() && all_finished(exits);
}

/// The job has ended: a record that cannot be saved must not lose its verdict.
void store(Comparison comparison, WatchedJob& watched) {
  watched.run.comparisons.push_back(std::move(comparison));
  watched.run.planned = counts_of(watched.run);
  try {
    save_record(watched.folder, watched.run);
  } catch (const Error& error) {
    watched.run.jobs[0].notes.push_back(std::string("its record was not saved: ") + error.what());
  }
}

}  // namespace

std::optional<ForeignDifference> difference_from(const NamedJob& reference,
                                                 const std::optional<KnownFindings>& known,
                                                 const JobRecord& job,
                                                 const std::filesystem::path& folder) {
  const SideFiles files(job, folder, folder.string());
  const ComparedPair diff = diff_runs(reference.files(), files, repetitions_of({&reference}), {});
  const StepDifference* const step = first_different(diff);
  const bool is_known = known && known->lists_all(keys_of(diff));
  if (verdict_of_values(diff) != Verdict::violated || is_known) return std::nullopt;
  return ForeignDifference{
      step->other,
      fmt::format("compared with {}: {}", reference.files().shown(), verdict_in_words(diff))};
}

void compare_with(const NamedJob& reference, WatchedJob& watched) {
  Comparison comparison;
  try {
    const NamedJob job(watched.folder);
    comparison.pairs.push_back(
        diff_runs(reference.files(), job.files(), repetitions_of({&reference, &job}), {}));
  } catch (const Error& error) {
    comparison.failure = fmt::format("the job was not compared: {}", printable_error(error.what()));
  }
  store(std::move(comparison), watched);
}

void run_again(WatchRequest request, WatchedJob& first, std::size_t width) {
  if (!has_finished(first.run)) return say("The job is not run again: it did not finish.\n");
  say("\nlockstep: the job runs again, to measure what does not reproduce\n");
  const std::filesystem::path folder = std::filesystem::path(first.folder) / kRepetitionFolder;
  request.out = folder.string();
  watch_job(request, LOCKSTEP_VERSION);
  Comparison comparison;
  comparison.purpose = ComparisonPurpose::repetition;
  try {
    const NamedJob one(first.folder), again(folder.string());
    ComparedPair diff = diff_runs(one.files(), again.files(), {}, {});
    conclude_repetition(diff);
    comparison.pairs.push_back(std::move(diff));
  } catch (const Error& error) {
    comparison.failure =
        fmt::format("the second run was not compared: {}", printable_error(error.what()));
  }
  say(wrapped(heading_of(comparison), 0, 2, width));
  store(std::move(comparison), first);
}

}  // namespace lockstep
