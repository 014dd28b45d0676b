#pragma once

#include <cstddef>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The room on a Markdown page.
struct PageLimits {
  std::size_t bytes = 0;    ///< of the page
  std::size_t of_list = 0;  ///< bytes of the points of one cell or job
  bool is_brief =
      false;  ///< of a job's tables only the charts; without any, some rows of the first
};

/// The report as one page of GitHub's Markdown: a title with the verdict, a table of at most
/// kMostTableRows rows, and everything else in folds, whose headings have the symptoms. Failures
/// come first, and the first of them is unfolded. Omitted pieces are counted. Text from outside
/// mentions, links and formats nothing.
std::string markdown_page(const RunRecord& run, const PageLimits& limits);

inline constexpr std::size_t kMostTableRows = 30;

}  // namespace lockstep
