#pragma once

#include <string>

#include "tests/reports/formats/literal_run.h"

namespace lockstep {

/// Text with a special meaning. It contains control characters, ends of quotations in XML, HTML and
/// Markdown, invalid UTF-8, characters that XML forbids, and names that would be mentioned.
inline const std::string kNasty =
    "\x01\b\x1b[31m\x7f\r\n\t ]]> & <script> </details> \"'` ``` |\\| **b** _i_ $1+1$ :tada: "
    "@octocat "
    "#123 GH-7 octocat/repo#8 0123456789abcdef0123456789abcdef01234567 www.example.org "
    "https://example.org a@example.org [x](y) ![x](y) <!-- \xff\xc3( \xed\xa0\x80 \xf8\x88\x80\x80 "
    "\xef\xbf\xbe\xef\xbf\xbf \xc2\x9b \xe2\x82" +
    std::string("\0\xe2", 2);

/// `literal_run` with `text` in every field of foreign origin, after its original beginning.
inline RunRecord nasty_run(const std::string& text = kNasty) {
  RunRecord run = literal_run();
  run.command.push_back(text);
  run.notes.push_back(text);
  run.environment.host += text;
  run.environment.compiler += text;
  run.environment.variables.push_back({"A" + text, text});
  for (CellRecord& cell : run.cells) {
    cell.cell.scenario += text;
    cell.cell.variant += text;
    cell.cell.axes.push_back({text, text});
    cell.source += text;
    cell.reproduce += text;
    cell.notes.push_back(text);
    if (!cell.expectation.not_applicable.empty()) cell.expectation.not_applicable += text;
    for (Check& check : cell.checks) {
      check.promise += text;
      check.text += text;
    }
    for (ClaimResult& result : cell.results) {
      result.tolerance_from += text;
      for (Finding& finding : result.findings) {
        finding.sentence = text + finding.sentence + text;
        if (finding.failure) finding.failure->last_output += text;
      }
    }
  }
  for (Table& table : run.tables) {
    table.scenario += text;
    table.axes.push_back({text, text});
    table.spec.title += text;
    for (TableSpec::Group& group : table.spec.groups) group.heading += text;
  }
  return run;
}

}  // namespace lockstep
