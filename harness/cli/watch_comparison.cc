#include "harness/cli/watch_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
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
void store_record(WatchedJob& watched) {
  try {
    save_record(watched.folder, watched.run);
  } catch (const Error& error) {
    watched.run.jobs[0].notes.push_back(std::string("its record was not saved: ") + error.what());
  }
}

void store(Comparison comparison, WatchedJob& watched) {
  watched.run.comparisons.push_back(std::move(comparison));
  watched.run.planned = counts_of(watched.run);
  store_record(watched);
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

namespace {

/// Without its other runs, of which there may be many.
SideFiles files_of(const WatchedJob& watched) {
  return {watched.run.jobs[0], watched.folder, watched.folder};
}

/// "reproducible: ..."; how far a repetition is from the first run.
Comparison compared_with_repetition(const WatchedJob& first, const WatchedJob& again) {
  Comparison comparison;
  comparison.purpose = ComparisonPurpose::repetition;
  try {
    ComparedPair diff = diff_runs(files_of(first), files_of(again), {}, {});
    conclude_repetition(diff);
    comparison.pairs.push_back(std::move(diff));
  } catch (const Error& error) {
    comparison.failure =
        fmt::format("the repetition was not compared: {}", printable_error(error.what()));
  }
  return comparison;
}

/// How far a perturbed run has come from the first one.
std::string moved_in_words(const WatchedJob& first, const WatchedJob& again) {
  const std::int64_t moved = again.run.jobs[0].perturbed.value_or(0);
  try {
    if (moved == 0) {
      return again.folder +
             " measures nothing: no module with parameters was called before the first step, so no "
             "initial weight was moved";
    }
    const ComparedPair diff = diff_runs(files_of(first), files_of(again), {}, {});
    const auto last =
        std::find_if(diff.steps.rbegin(), diff.steps.rend(),
                     [](const StepDifference& step) { return step.weights_apart.value_or(0) > 0; });
    if (last == diff.steps.rend()) {
      return fmt::format("{}: {} moved by a unit in the last place, and no step is known to differ",
                         again.folder, counted(moved, "parameter"));
    }
    return fmt::format(
        "{}: {} moved by a unit in the last place; before step {} all parameters are {:.2g} of "
        "their norm from those of the job",
        again.folder, counted(moved, "parameter"), last->step, *last->weights_apart);
  } catch (const Error& error) {
    return fmt::format("{} was not compared: {}", again.folder, printable_error(error.what()));
  }
}

}  // namespace

void run_again(WatchRequest request, const MoreRuns& more, WatchedJob& first, std::size_t width) {
  const int count = more.repeated + more.perturbed;
  if (count == 0) return;
  if (!has_finished(first.run)) return say("The job is not run again: it did not finish.\n");
  request.compare = {};
  for (int number = 1; number <= count; ++number) {
    const bool is_perturbed = number > more.repeated;
    say(fmt::format("\nlockstep: the job runs again, {} ({} of {})\n",
                    is_perturbed ? "with initial weights moved by a unit in the last place"
                                 : "to measure what does not reproduce",
                    number, count));
    request.out = repetition_folder(first.folder, number).string();
    request.perturbation = is_perturbed ? number - more.repeated : 0;
    const WatchedJob again = watch_job(request, LOCKSTEP_VERSION);
    if (is_perturbed) {
      first.run.notes.push_back(moved_in_words(first, again));
      say(wrapped(first.run.notes.back(), 0, 2, width));
      store_record(first);
    } else {
      Comparison comparison = compared_with_repetition(first, again);
      say(wrapped(heading_of(comparison), 0, 2, width));
      store(std::move(comparison), first);
    }
    if (again.end.interrupted_by != 0) return;
  }
}

}  // namespace lockstep
