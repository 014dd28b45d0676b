#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "reports/formats/renderer.h"
#include "reports/record/known_findings.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Shows a run in the step of GitHub Actions that this process belongs to, if it does: appends the
/// page of `--format github` to the file GITHUB_STEP_SUMMARY, and writes annotations to `log` if
/// GITHUB_ACTIONS is `true`, without `known` findings. A page that would push the file over
/// GitHub's limit is shortened. A file that cannot be written is told on standard error; the run's
/// exit status stays.
///
/// Returns whether a file for the page is named.
bool show_in_github_step(const RunRecord& run, const std::optional<KnownFindings>& known,
                         std::FILE* log);

/// Prints a run in a format; in a step of GitHub Actions, its summary is the place of that of
/// `github`.
void print_in_format(const Renderer& renderer, const RunRecord& run,
                     const std::optional<KnownFindings>& known);

/// Writes the reports of `--format` into the folder of a run, and shows that of `github` in the
/// step. Returns why the first could not be written, if one could not; the others are.
std::optional<Error> write_reports(const std::vector<const Renderer*>& renderers,
                                   const RunRecord& run, const std::string& folder,
                                   const std::optional<KnownFindings>& known, std::FILE* log);

}  // namespace lockstep
