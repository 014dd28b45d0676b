#include "harness/cli/watch_comparison.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "harness/diff/diff_keys.h"
#include "harness/diff/diff_runs.h"
#include "harness/diff/diff_words.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool has_finished(const RunRecord& run) {
  const std::vector<RankExit>& exits = run.jobs[0].exits;
  return !exits.empty() && all_finished(exits);
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

ExitStatus compare_with(const NamedJob& reference, const std::string& folder,
                        const std::optional<KnownFindings>& known, std::size_t width) {
  try {
    const NamedJob job(folder);
    const DiffRecord diff = diff_runs(reference.files(), job.files(),
                                      repetitions_of({&reference, &job}), DiffRequest());
    say("\n" + diff_in_words(diff, width) + keys_in_words(diff, known));
    return status_of(diff, known);
  } catch (const Error& error) {
    say(fmt::format("\nThe job was not compared: {}\n", printable_error(error.what())));
    return ExitStatus::undecided;
  }
}

int with_comparison(int exit, ExitStatus comparison) {
  const bool is_own = exit > static_cast<int>(ExitStatus::not_applicable);
  return is_own ? exit : static_cast<int>(worse(static_cast<ExitStatus>(exit), comparison));
}

void run_again(WatchRequest request, const WatchedJob& first, std::size_t width) {
  if (!has_finished(first.run)) return say("The job is not run again: it did not finish.\n");
  say("\nlockstep: the job runs again, to measure what does not reproduce\n");
  const std::filesystem::path folder = std::filesystem::path(first.folder) / kRepetitionFolder;
  request.out = folder.string();
  watch_job(request, LOCKSTEP_VERSION);
  try {
    const NamedJob one(first.folder), again(folder.string());
    const DiffRecord diff = diff_runs(one.files(), again.files(), {}, DiffRequest());
    say(wrapped("The second run, compared with the first: " + verdict_in_words(diff), 0, 2, width));
  } catch (const Error& error) {
    say(fmt::format("The second run was not compared: {}\n", printable_error(error.what())));
  }
}

}  // namespace lockstep
