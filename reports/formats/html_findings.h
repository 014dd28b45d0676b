#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/formats/shown_findings.h"
#include "reports/page/html_table.h"

namespace lockstep {

/// The cell or job that a finding is about.
struct FindingPlace {
  std::string title;      ///< "loss-on-unwrapped-module/bypass, 2 ranks"
  std::string label;      ///< of its keys
  std::string reproduce;  ///< the command; empty: unknown
  std::string source;     ///< markup; empty: unknown
};

/// The findings of a page. The first ones are shown in full, all of them in one table.
class HtmlFindings {
 public:
  HtmlFindings();

  /// Adds findings of one place. Returns the markup of those that are shown in full.
  std::string add(const FindingPlace& place, const std::vector<ShownFinding>& findings);

  std::size_t count() const { return count_; }

  /// The table of all findings, or a sentence that there are none.
  std::string table() const;

 private:
  void add_row(const FindingPlace& place, const Finding& finding);

  HtmlTable table_;
  std::size_t count_ = 0;
};

}  // namespace lockstep
