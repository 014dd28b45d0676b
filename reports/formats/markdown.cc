#include <cstddef>

#include "reports/formats/markdown_page.h"
#include "reports/formats/renderer.h"

namespace lockstep {

namespace {

/// GitHub refuses a comment of more than 65536 characters. The rest leaves room for the marker of
/// ci/github/comment.py and for lines added by a workflow.
constexpr PageLimits kComment{59'500, 10'000, true};

/// GitHub drops the summary of a step as a whole if it has more than 1 MiB.
constexpr PageLimits kJobSummary{std::size_t{900} * 1024, 100'000};

}  // namespace

std::string render_markdown(const RunRecord& run) { return markdown_page(run, kComment); }

std::string render_github(const RunRecord& run) { return markdown_page(run, kJobSummary); }

}  // namespace lockstep
