#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/html_cells.h"
#include "reports/formats/html_comparisons.h"
#include "reports/formats/job_report.h"
#include "reports/formats/overview.h"
#include "reports/formats/renderer.h"
#include "reports/page/html_page.h"
#include "reports/page/html_table.h"
#include "reports/page/html_text.h"
#include "reports/record/finding_key.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

Tone tone_of_run(const RunRecord& run) {
  const ExitStatus status = exit_status(run);
  if (status == ExitStatus::as_expected) return Tone::good;
  return status == ExitStatus::failed ? Tone::bad : Tone::open;
}

/// All executions of a run.
template <class Work>
void for_each_execution(const RunRecord& run, const Work& work) {
  for (const CellRecord& cell : run.cells) work(cell);
  for (const JobRecord& job : run.jobs) work(job);
}

std::vector<const ClaimResult*> results_of(const RunRecord& run) {
  std::vector<const ClaimResult*> results;
  for_each_execution(run, [&](const Execution& execution) {
    for (const ClaimResult& result : execution.results) results.push_back(&result);
  });
  for (const Comparison& comparison : run.comparisons) {
    for (const ComparedPair& pair : comparison.pairs) results.push_back(&pair.result);
  }
  return results;
}

/// "48 claims were judged: 36 hold, 2 undecided, 10 violated. 1204 tensors were compared."
std::string coverage_of_claims(const RunRecord& run) {
  std::array<std::size_t, 3> verdicts{};
  std::size_t claims = 0;
  std::int64_t tensors = 0, steps = 0;
  for_each_execution(run, [&](const Execution& execution) { steps += execution.steps.count; });
  for (const Comparison& comparison : run.comparisons) {
    for (const ComparedPair& pair : comparison.pairs) steps += steps_compared(pair);
  }
  for (const ClaimResult* result : results_of(run)) {
    ++claims;
    ++verdicts.at(static_cast<std::size_t>(result->verdict));
    tensors += result->comparisons;
  }
  if (claims == 0) return "No claim was judged.";
  return fmt::format(
      "{} judged in {}, with {} of tensors: {} hold, {} undecided, {} "
      "violated.",
      counted(claims, "claim"), counted(steps, "step"), counted(tensors, "comparison"), verdicts[0],
      verdicts[1], verdicts[2]);
}

std::vector<std::string> lead_of(const RunRecord& run) {
  std::vector<std::string> lines{coverage_of_claims(run)};
  for (const JobRecord& job : run.jobs) {
    if (run.jobs.size() > 1 || job.coverage.parameters == 0) break;
    lines.push_back(fmt::format("{} of {} parameters compared on {} of {} ranks.",
                                job.coverage.compared, job.coverage.parameters, job.coverage.ranks,
                                job.world_size));
  }
  return lines;
}

std::string detection_table_of(const RunRecord& run) {
  const std::vector<Column> columns = detection_columns(run);
  std::vector<HtmlColumn> heads;
  for (const Column& column : columns) {
    heads.push_back({in_html(column.cells.front()), column.align == Align::right});
  }
  HtmlTable table("Cells by scenario", heads);
  for (std::size_t row = 1; row < columns.front().cells.size(); ++row) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(in_html(column.cells[row], 200));
    table.add(cells);
  }
  return table.with_filter();
}

std::string environment_in_html(const RunRecord& run) {
  const RunEnvironment& environment = run.environment;
  const std::string command = in_shell(run.command);
  std::string text = html_facts(
      {{"Lockstep", in_html(environment.lockstep_version)},
       {"torch", in_html(environment.torch_version)},
       {"Compiler", in_html(environment.compiler)},
       {"Digest", in_html(environment.digest)},
       {"Started", in_html(environment.started_utc)},
       {"Host", in_html(environment.host)},
       {"Command", command.empty() ? "" : fmt::format("<code>{}</code>", in_html(command))}});
  HtmlTable table("Environment variables", {{"Variable"}, {"Value"}});
  for (const auto& [variable, value] : environment.variables) {
    table.add({in_html(variable, 200), in_html(value, 500)});
  }
  return table.rows() == 0 ? text : text + table.text();
}

std::vector<std::string> notes_in_html(const RunRecord& run) {
  constexpr std::size_t kMost = 200;
  std::vector<std::string> notes;
  for (const std::string& note : run.notes) {
    if (notes.size() == kMost) break;
    notes.push_back(in_html(note));
  }
  if (run.notes.size() > kMost) {
    notes.push_back(fmt::format("{} more are in record.json", run.notes.size() - kMost));
  }
  return notes;
}

std::string title_of_page(const RunRecord& run) {
  if (is_comparison(run)) return title_of(run.comparisons.front());
  if (run.jobs.size() == 1 && run.cells.empty()) return title_of(run.jobs[0]);
  std::set<std::string> scenarios;
  for (const CellRecord& cell : run.cells) scenarios.insert(cell.cell.scenario);
  if (scenarios.size() == 1) return *scenarios.begin();
  return run.cells.empty() ? counted(run.jobs.size(), "job")
                           : fmt::format("{}, {}", counted(scenarios.size(), "scenario"),
                                         counted(run.cells.size(), "cell"));
}

/// Adds those of the pair that the comparison is judged by.
std::string findings_in_html(const Comparison& comparison, HtmlFindings& findings) {
  if (comparison.pairs.empty()) return "";
  const ComparedPair& judged = comparison.pairs.back();
  std::vector<ShownFinding> shown;
  for (const Finding& finding : judged.result.findings) {
    shown.push_back({&finding, finding.sentence});
  }
  return findings.add({title_of(comparison), label_of(judged), "", ""}, shown);
}

/// One of several parts has its verdict, too.
HtmlSection section_of(const JobRecord& job, const std::string& anchor, const RunRecord& run,
                       HtmlCells& cells) {
  const bool is_alone = run.jobs.size() == 1 && run.cells.empty();
  const std::string verdict =
      is_alone ? "" : fmt::format("<p><b>{}</b></p>\n", in_html(heading_of(job)));
  return {anchor, in_html(title_of(job), 300), verdict + cells.job(job)};
}

}  // namespace

std::string render_html(const RunRecord& given) {
  const RunRecord run = without_secrets(given);
  HtmlPage page;
  const bool is_alone = is_comparison(run) && run.comparisons.size() == 1;
  page.title = "Lockstep: " + title_of_page(run);
  page.kicker = "Lockstep report: " + title_of_page(run);
  page.verdict = in_html(is_alone ? heading_of(run.comparisons[0]) : verdict_sentence(run));
  page.tone = tone_of_run(run);
  page.lead = lead_of(run);

  HtmlFindings findings;
  HtmlCells cells(run, findings);
  std::vector<HtmlSection> parts;
  const std::vector<Section> sections = sections_of(run);
  for (const Section& section : sections) {
    parts.push_back({fmt::format("part-{}", parts.size() + 1), in_html(section.title, 300),
                     cells.section(section, sections.size() == 1)});
  }
  for (const JobRecord& job : run.jobs) {
    parts.push_back(section_of(job, fmt::format("part-{}", parts.size() + 1), run, cells));
  }
  for (const Comparison& comparison : run.comparisons) {
    parts.push_back(section_of(comparison, fmt::format("part-{}", parts.size() + 1), is_alone));
    parts.back().body += findings_in_html(comparison, findings);
  }
  std::vector<std::string> notes = notes_in_html(run);
  if (cells.without_charts() > 0) {
    notes.push_back(fmt::format(
        "Charts of {} cells are left out to keep the page small. `lockstep run` with the "
        "command of one cell shows them.",
        cells.without_charts()));
  }
  // A page of one job begins with its charts.
  if (run.jobs.size() == 1 && parts.size() == 1) page.sections.swap(parts);
  page.sections.push_back({"findings", "Findings", findings.table()});
  if (has_detections(run)) {
    page.sections.push_back({"detections", "Detection table", detection_table_of(run)});
  }
  for (HtmlSection& part : parts) page.sections.push_back(std::move(part));
  if (const std::string table = cells.table(); !table.empty()) {
    page.sections.push_back({"cells", "All cells", table});
  }
  if (!notes.empty()) page.sections.push_back({"notes", "Notes", html_list(notes)});
  page.sections.push_back({"environment", "Environment", environment_in_html(run)});
  return html_of(page);
}

}  // namespace lockstep
