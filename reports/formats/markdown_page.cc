#include "reports/formats/markdown_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/columns.h"
#include "reports/formats/forge_links.h"
#include "reports/formats/job_report.h"
#include "reports/formats/markdown_sections.h"
#include "reports/formats/markdown_text.h"
#include "reports/formats/overview.h"
#include "reports/formats/sections.h"
#include "reports/record/result.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

std::string table_row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += fmt::format(" {} |", title_text(cell));
  return text + "\n";
}

/// A row of a table, and whether it shows nothing unexpected.
struct PageRow {
  std::vector<std::string> cells;
  bool is_as_expected = true;
};

/// Of more rows than `most` the unexpected ones come first, and the others are counted.
std::string table_of(const std::vector<Column>& columns, std::vector<PageRow> rows,
                     std::size_t most) {
  std::vector<std::string> headings;
  std::string rule = "|";
  for (const Column& column : columns) {
    headings.push_back(column.cells.front());
    rule += column.align == Align::left ? "---|" : "---:|";
  }
  std::string text = table_row(headings) + rule + "\n";
  const bool is_cut = rows.size() > most;
  if (is_cut) {
    std::stable_partition(rows.begin(), rows.end(),
                          [](const PageRow& row) { return !row.is_as_expected; });
  }
  const std::size_t shown = is_cut ? most - 1 : rows.size();
  for (std::size_t i = 0; i < shown; ++i) text += table_row(rows[i].cells);
  if (is_cut) {
    std::vector<std::string> rest(columns.size());
    rest[0] = fmt::format("{} more in report.html", rows.size() - shown);
    text += table_row(rest);
  }
  return text + "\n";
}

std::string detection_table(const RunRecord& run, std::size_t most) {
  const std::vector<Column> columns = detection_columns(run);
  const std::vector<Detection> scenarios = detections(run);
  std::vector<PageRow> rows;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    PageRow row;
    for (const Column& column : columns) row.cells.push_back(column.cells[i + 1]);
    row.is_as_expected = scenarios[i][Result::as_expected] == scenarios[i].cells;
    rows.push_back(std::move(row));
  }
  return table_of(columns, std::move(rows), most);
}

/// Jobs of several runs may be called alike.
std::string name_of(const JobRecord& job, const std::vector<JobRecord>& jobs) {
  const auto alike = std::count_if(
      jobs.begin(), jobs.end(), [&](const JobRecord& other) { return other.title == job.title; });
  return alike > 1 ? fmt::format("{} ({})", job.title, job.folder) : job.title;
}

/// Several jobs are numbered, for their folds. The result of a single one is in the page's title.
std::string job_table(const RunRecord& run, std::size_t most) {
  std::vector<Column> columns{Column("job", 0, Align::left), Column("ranks"), Column("steps"),
                              Column("parameters compared")};
  const bool is_alone = run.jobs.size() == 1 && !has_detections(run);
  if (!is_alone) columns.emplace_back("result", 0, Align::left);
  std::vector<PageRow> rows;
  for (const JobRecord& job : run.jobs) {
    const Coverage& coverage = job.coverage;
    const std::string name = name_of(job, run.jobs);
    PageRow row;
    row.cells = {run.jobs.size() == 1 ? name : fmt::format("{}: {}", rows.size() + 1, name),
                 std::to_string(job.world_size), std::to_string(job.steps.count),
                 coverage.parameters == 0
                     ? "-"
                     : fmt::format("{} of {}", coverage.compared, coverage.parameters)};
    if (!is_alone) row.cells.push_back(heading_of(job));
    row.is_as_expected = status_of(job) == ExitStatus::as_expected;
    rows.push_back(std::move(row));
  }
  return table_of(columns, std::move(rows), most);
}

/// Fixes in several cells, a row each.
std::string fix_table(const std::vector<Comparison>& comparisons, std::size_t most) {
  const std::vector<Column> columns{
      Column("cell", 0, Align::left), Column("before", 0, Align::left),
      Column("after", 0, Align::left), Column("outcome", 0, Align::left)};
  std::vector<PageRow> rows;
  for (FixRow& row : fix_rows_of(comparisons)) {
    const bool is_fixed = row.outcome == name(FixOutcome::fixed);
    rows.push_back(
        {{std::move(row.cell), std::move(row.before), std::move(row.after), std::move(row.outcome)},
         is_fixed});
  }
  return table_of(columns, std::move(rows), most);
}

/// The sides of comparisons, a row each: of a fix the reference, before and after.
std::string comparison_table(const RunRecord& run, std::size_t most) {
  const std::vector<Column> columns{Column("side", 0, Align::left),
                                    Column("training", 0, Align::left),
                                    Column("outcome", 0, Align::left)};
  if (is_matrix_of_fixes(run.comparisons)) return fix_table(run.comparisons, most);
  std::vector<PageRow> rows;
  for (const Comparison& comparison : run.comparisons) {
    const bool is_as_expected = status_of(comparison) == ExitStatus::as_expected;
    for (const SideRow& row : rows_of(comparison)) {
      rows.push_back({{row.role, row.side, row.outcome}, is_as_expected});
    }
  }
  return rows.empty() ? "" : table_of(columns, std::move(rows), most);
}

/// At most kMostTableRows rows, also of a record with both cells and jobs.
std::string tables_text(const RunRecord& run) {
  std::string compared = comparison_table(run, kMostTableRows / 2);
  if (is_comparison(run) && !compared.empty()) return compared;
  if (run.jobs.empty()) return detection_table(run, kMostTableRows) + compared;
  if (!has_detections(run)) return job_table(run, kMostTableRows) + compared;
  return job_table(run, kMostTableRows / 2) + detection_table(run, kMostTableRows / 2) + compared;
}

/// The comparison that says more than the jobs beside it; null: there is none, or there are cells.
const Comparison* deciding_comparison(const RunRecord& run) {
  if (!run.cells.empty()) return nullptr;
  ExitStatus worst = ExitStatus::as_expected;
  for (const JobRecord& job : run.jobs) worst = worse(worst, status_of(job));
  const Comparison* decides = nullptr;
  for (const Comparison& one : run.comparisons) {
    if (one.purpose == ComparisonPurpose::repetition) continue;
    const bool is_worse = worse(worst, status_of(one)) != worst;
    if (is_worse || (!decides && run.jobs.empty())) decides = &one;
    worst = worse(worst, status_of(one));
  }
  return decides;
}

/// "260 of 261 cells as expected", "1 of 5 jobs in lockstep", "FAILED: ranks differ from step 1
/// on".
std::string title_of(const RunRecord& run) {
  if (is_comparison(run) && is_matrix_of_fixes(run.comparisons)) return heading_of(run.comparisons);
  if (const Comparison* const one = deciding_comparison(run)) return heading_of(*one);
  if (!has_detections(run) && run.jobs.size() == 1) {
    const JobRecord& job = run.jobs.front();
    const bool do_agree =
        is_to_agree(job) && status_of(job) == ExitStatus::as_expected && !is_recording(job);
    return do_agree ? "all ranks agree" : heading_of(job);
  }
  if (!has_detections(run)) {
    const auto right = std::count_if(run.jobs.begin(), run.jobs.end(), [](const JobRecord& job) {
      return status_of(job) == ExitStatus::as_expected;
    });
    const bool are_to_agree = std::ranges::all_of(run.jobs, is_to_agree);
    return fmt::format("{} of {} jobs {}", right, run.jobs.size(),
                       are_to_agree ? "in lockstep" : "as expected");
  }
  const auto right = std::count_if(run.cells.begin(), run.cells.end(), [](const CellRecord& cell) {
    return result_of(cell) == Result::as_expected;
  });
  return fmt::format("{} of {} {} as expected", right, run.cells.size(),
                     run.cells.size() == 1 ? "cell" : "cells");
}

/// The verdict of jobs is in the title and the table.
std::string head_of(const RunRecord& run) {
  std::string title = fmt::format("## Lockstep: {}\n\n", title_text(title_of(run)));
  const std::string links = forge_links(run.environment);
  if (!links.empty()) title += links + "\n\n";
  if (!has_detections(run)) return title;
  return title + fmt::format("**{}**\n\n", title_text(verdict_sentence(run)));
}

/// "gradients equal the reference: bitwise the reference", claim by claim.
std::vector<std::string> margins_of(const ShownCell& cell) {
  std::vector<std::string> margins;
  for (const ClaimResult* result : nearest_results(cell)) {
    if (!result->margin || result->verdict == Verdict::violated) continue;
    margins.push_back(fmt::format("{}: {}", sentence(result->claim), margin_in_words(*result)));
  }
  return margins;
}

/// How close the claims about the reference came to their tolerances, cell by cell.
std::string margins_text(const std::vector<Section>& sections, std::size_t most) {
  std::vector<std::string> points;
  for (const Section& section : sections) {
    for (const ShownCell& cell : section.cells) {
      const std::vector<std::string> margins = margins_of(cell);
      if (margins.empty()) continue;
      points.push_back(
          fmt::format("- {}\n", sentence_text(fmt::format("{}: {}", title_of(cell.record->cell),
                                                          fmt::join(margins, "; ")))));
    }
  }
  return list_text(points, most);
}

std::string environment_text(const RunRecord& run) {
  const RunEnvironment& environment = run.environment;
  std::string versions = "Lockstep " + environment.lockstep_version;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) versions += fmt::format(", {}{}", name, value);
  };
  add("torch ", environment.torch_version);
  add("", environment.compiler);
  add("digest ", environment.digest);
  std::string text = fmt::format("- {}\n- started {} on {}\n", title_text(versions),
                                 title_text(environment.started_utc), title_text(environment.host));
  const std::string command = in_shell(run.command);
  if (!command.empty()) text += fmt::format("- {}\n", in_code(beginning(command, kMostOfAText)));
  for (const auto& [variable, value] : environment.variables) {
    text += fmt::format("- {}\n",
                        in_code(beginning(fmt::format("{}={}", variable, value), kMostOfAText)));
  }
  return text;
}

std::string notes_text(const RunRecord& run, std::size_t most) {
  std::vector<std::string> points;
  for (const std::string& note : run.notes) {
    points.push_back(fmt::format("- note: {}\n", sentence_text(note)));
  }
  return points.empty() ? "" : list_text(points, most) + "\n";
}

}  // namespace

std::string markdown_page(const RunRecord& given, const PageLimits& limits) {
  const RunRecord run = without_secrets(given);
  const std::string head = head_of(run);
  const std::vector<Section> sections = sections_of(run);
  Folds folds(limits.of_list, limits.is_brief);
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    folds.add(run.jobs[i], run.jobs.size() == 1 ? "Job" : fmt::format("Job {}", i + 1));
  }
  for (const Comparison& comparison : run.comparisons) folds.add(comparison);
  for (const Section& section : sections) folds.add(section);
  folds.add(Part::extra, "Margins", margins_text(sections, limits.of_list));
  folds.add(Part::list, "Environment", environment_text(run));

  Pieces pieces{{Part::overview, tables_text(run)},
                {Part::overview, notes_text(run, limits.of_list)}};
  Pieces folded = folds.take();
  std::move(folded.begin(), folded.end(), std::back_inserter(pieces));
  constexpr std::size_t kSentence = 300;  // about the omitted pieces
  const Pieces left_out = leave_out(pieces, limits.bytes - head.size() - kSentence);
  const auto rest = std::find_if(pieces.begin(), pieces.end(),
                                 [](const Piece& piece) { return piece.part != Part::overview; });
  std::string text = head + text_of({pieces.begin(), rest}) + sentence_about(left_out) +
                     text_of({rest, pieces.end()});
  text.erase(text.find_last_not_of('\n') + 1);
  return text + "\n";
}

}  // namespace lockstep
