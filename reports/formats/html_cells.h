#pragma once

#include <cstddef>
#include <string>

#include "reports/formats/html_findings.h"
#include "reports/formats/sections.h"
#include "reports/formats/source_place.h"
#include "reports/page/html_page.h"
#include "reports/record/result.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Writes the cells and jobs of a page, and notes their findings.
class HtmlCells {
 public:
  /// Both stay valid as long as this.
  HtmlCells(const RunRecord& run, HtmlFindings& findings) : run_(run), findings_(findings) {}

  /// A scenario: its tables with charts, then its cells, failures first. These are open, and with
  /// `opens_first` the first cell in any case.
  std::string section(const Section& section, bool opens_first);

  std::string job(const JobRecord& job);

  /// All cells of the run in a table with a filter. Empty with fewer than two cells.
  std::string table() const;

  /// Cells whose charts were left out, so that the page stays small.
  std::size_t without_charts() const { return without_charts_; }

 private:
  std::string details(const ShownCell& shown, Naming naming, bool is_open);
  std::string charts(const Execution& execution);
  std::string source_link(const SourcePlace& place) const;

  const RunRecord& run_;
  HtmlFindings& findings_;
  std::size_t chart_bytes_ = 0;
  std::size_t without_charts_ = 0;
};

/// The colour of a cell's result.
Tone tone_of(Result result);

}  // namespace lockstep
