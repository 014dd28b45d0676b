#include "reports/formats/html_cells.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"
#include "reports/formats/forge_links.h"
#include "reports/formats/html_charts.h"
#include "reports/formats/html_lanes.h"
#include "reports/formats/job_report.h"
#include "reports/formats/matrix.h"
#include "reports/formats/overview.h"
#include "reports/page/html_text.h"
#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

/// Charts of cells together; one execution may exceed it.
constexpr std::size_t kMostOfCharts = 3 << 20;
constexpr std::size_t kMostTableRows = 10000;
constexpr std::size_t kMostExits = 1000;

/// Failures first, then undecided cells.
std::vector<const ShownCell*> cells_to_show(const Section& section) {
  std::vector<const ShownCell*> cells;
  if (section.is_matrix) {
    cells = conspicuous_cells(section);
  } else {
    for (const ShownCell& cell : section.cells) cells.push_back(&cell);
  }
  const auto urgency = [](const ShownCell* cell) {
    const Result result = result_of(*cell->record);
    return is_failure(result) ? 0 : result == Result::undecided ? 1 : 2;
  };
  std::stable_sort(cells.begin(), cells.end(),
                   [&](const ShownCell* a, const ShownCell* b) { return urgency(a) < urgency(b); });
  return cells;
}

/// The badge before it has the result.
std::string heading_without_result(const ShownCell& shown, Naming naming) {
  const std::string heading = heading_of(shown, naming);
  const std::string result = std::string(name(result_of(*shown.record))) + ": ";
  return heading.starts_with(result) ? heading.substr(result.size()) : heading;
}

std::vector<std::string> lines_in_html(const std::vector<std::string>& lines) {
  std::vector<std::string> shown;
  for (const std::string& line : lines) shown.push_back(in_html(line));
  return shown;
}

std::string command_in_html(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

/// Ranks that did not finish: of a healthy run there is nothing to say.
std::string exits_table(const Execution& execution) {
  HtmlTable table("Ranks that did not finish",
                  {{"Rank", true}, {"Exit"}, {"Step", true}, {"Error"}, {"Detail"}});
  for (const RankExit& exit : execution.exits) {
    if (exit.kind == ExitKind::finished || table.rows() == kMostExits) continue;
    table.add({std::to_string(exit.rank), std::string(name(exit.kind)), std::to_string(exit.step),
               in_html(exit.error, 300), in_html(exit.detail, 200)});
  }
  if (table.rows() == 0) return "";
  return html_details(counted(table.rows(), "rank") + " did not finish", table.with_filter());
}

std::string claims_table(const Execution& execution) {
  HtmlTable table("Claims",
                  {{"Claim"}, {"Verdict"}, {"Tensors compared", true}, {"Reason or margin"}});
  for (const ClaimResult& result : execution.results) {
    const std::string margin = result.margin ? margin_in_words(result) : "";
    table.add({in_html(sentence(result.claim)), std::string(name(result.verdict)),
               std::to_string(result.comparisons),
               in_html(result.reason.empty() ? margin : result.reason)});
  }
  return table.rows() == 0 ? "" : html_details(counted(table.rows(), "claim"), table.text());
}

std::string settings_of(const JobRecord& job) {
  HtmlTable table("Configuration", {{"Setting"}, {"Value"}, {"Ranks"}});
  for (const Setting& one : job.configuration) {
    table.add({in_html(one.name, 200), in_html(one.value, 200), ranks_in_short(one.ranks)});
  }
  for (const Precision& one : job.precisions) {
    table.add({in_html(one.operation, 200),
               fmt::format("{} from step {} on", in_html(one.dtype, 200), one.first_step),
               ranks_in_short(one.ranks)});
  }
  return table.rows() == 0 ? "" : html_details("Configuration", table.with_filter());
}

std::string matrix_in_html(const Section& section) {
  std::string text;
  for (const MatrixVariant& variant : matrix_lines(section)) {
    std::vector<std::string> lines;
    for (const MatrixLine& line : variant.lines) {
      if (lines.size() == kMostTableRows) break;
      lines.push_back((line.mark == ' ' ? "" : fmt::format("<b>{}</b> ", line.mark)) +
                      in_html(line_text(variant, line)));
    }
    text += html_details(in_html(variant.title), html_list(lines), variant.lines.size() < 12);
  }
  return text + fmt::format("<p>{}</p>\n", in_html(matrix_footnote(section)));
}

std::string tables_in_html(const Section& section) {
  std::string charts;
  for (const Table* table : section.tables) charts += html_chart_of(*table);
  return side_by_side_charts(charts);
}

}  // namespace

Tone tone_of(Result result) {
  if (result == Result::as_expected) return Tone::good;
  return is_failure(result) ? Tone::bad : Tone::open;
}

/// A link if the run says which commit of which repository it is of, and the file is one of it.
std::string HtmlCells::source_link(const SourcePlace& place) const {
  if (place.file.empty()) return "";
  std::string shown = fmt::format("<code>{}{}</code>", in_html(place.file, 300),
                                  place.line.empty() ? "" : ":" + in_html(place.line));
  const std::string commit = forge_commit(run_.environment);
  const std::string address =
      forge_address(run_.environment, fmt::format("blob/{}/{}", commit, place.file));
  const bool is_elsewhere = place.file.starts_with('/');
  if (commit.empty() || is_elsewhere || address.empty()) return shown;
  return fmt::format("<a href=\"{}{}\" rel=\"noreferrer\">{}</a>", in_html(address),
                     place.line.empty() ? "" : "#L" + in_html(place.line), shown);
}

std::string HtmlCells::charts(const Execution& execution) {
  std::string text = html_charts(execution);
  if (chart_bytes_ > 0 && chart_bytes_ + text.size() > kMostOfCharts) {
    ++without_charts_;
    return "";
  }
  chart_bytes_ += text.size();
  return text;
}

std::string HtmlCells::details(const ShownCell& shown, Naming naming, bool is_open) {
  const CellRecord& cell = *shown.record;
  const Result result = result_of(cell);
  const std::string source = source_link(place_of(cell.source));
  std::vector<std::string> points = lines_in_html(shown_checks(cell));
  for (const std::string& line : shown_undecided(cell)) points.push_back(in_html(line));
  for (const std::string& note : cell.notes) points.push_back("note: " + in_html(note));
  std::string text =
      html_facts({{"Symptom", in_html(cell.symptom.text)},
                  {"Steps", cell.steps.count == 0 ? "" : std::to_string(cell.steps.count)},
                  {"Run it again", cell.reproduce.empty() ? "" : copied_in_html(cell.reproduce)},
                  {"Source", source}});
  text += html_list(points);
  text += findings_.add({title_of(cell.cell), label_of(cell), cell.reproduce, source},
                        shown_findings(cell));
  if (cell.cell.role != Role::reference) text += charts(cell);
  const std::string lanes = html_lanes(cell);
  if (!lanes.empty())
    text += html_details("Collectives, rank by rank", lanes, cell.mismatch.has_value());
  text += exits_table(cell) + claims_table(cell);
  return fmt::format("<details class=\"cell\"{}><summary>{} {}</summary>\n{}</details>\n",
                     is_open || is_failure(result) ? " open" : "",
                     html_badge(name(result), tone_of(result)),
                     in_html(heading_without_result(shown, naming)), text);
}

std::string HtmlCells::section(const Section& section, bool opens_first) {
  std::string text = section.is_matrix ? matrix_in_html(section) : tables_in_html(section);
  const Naming naming = section.is_matrix ? Naming::with_axes : Naming::variant;
  bool is_first = opens_first;
  for (const ShownCell* cell : cells_to_show(section)) {
    text += details(*cell, naming, is_first);
    is_first = false;
  }
  const std::string cost = section.is_matrix ? "" : cost_text(section);
  if (!cost.empty()) {
    text += html_details(std::string(kTitleOfCost), html_output(std::string(kTitleOfCost), cost));
  }
  return text;
}

std::string HtmlCells::job(const JobRecord& job) {
  const std::string command = command_in_html(run_.command);
  std::string text = charts(job) + html_list(lines_in_html(lines_of(job, {})));
  // Known if calls do not match: that of the call.
  const std::string source = source_link(place_of(job));
  text += findings_.add({title_of(job), label_of(job), command, source}, shown_findings(job));
  text += html_lanes(job);
  // Charts show the same quantities in more steps.
  if (!job.charts || job.charts->series.steps.empty()) {
    std::string tables;
    for (const Table& table : job.tables) tables += html_chart_of(table);
    text += side_by_side_charts(tables);
  }
  return text + exits_table(job) + claims_table(job) + settings_of(job);
}

std::string HtmlCells::table() const {
  HtmlTable table("All cells", {{"Cell"}, {"Role"}, {"Result"}, {"Symptom"}, {"Steps", true}});
  for (const CellRecord& cell : run_.cells) {
    if (table.rows() == kMostTableRows) break;
    const Result result = result_of(cell);
    table.add({in_html(title_of(cell.cell), 300), std::string(name(cell.cell.role)),
               html_badge(name(result), tone_of(result)), in_html(cell.symptom.text, 200),
               std::to_string(cell.steps.count)});
  }
  if (table.rows() < 2) return "";
  const std::size_t left_out = run_.cells.size() - table.rows();
  return table.with_filter() +
         (left_out == 0 ? "" : fmt::format("<p>{} more are in record.json.</p>\n", left_out));
}

}  // namespace lockstep
