#include "reports/formats/markdown_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/console_table.h"
#include "reports/formats/drift_chart.h"
#include "reports/formats/job_report.h"
#include "reports/formats/markdown_text.h"
#include "reports/formats/matrix.h"
#include "reports/formats/overview.h"
#include "reports/formats/shown_findings.h"
#include "reports/page/finding_pages.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostOfATitle = 400;

std::string finding_point(const ShownFinding& shown) {
  const Finding& finding = *shown.finding;
  std::string text =
      shown.sentence.empty() ? "" : fmt::format("- {}\n", sentence_text(shown.sentence));
  if (!finding.failure || finding.failure->last_output.empty()) return text;
  const std::string output = ending(printable(finding.failure->last_output), kMostOfAText);
  return fmt::format("{}last output of rank {}:\n{}", text.empty() ? "- " : text + "\n  ",
                     finding.failure->rank, prefixed(fenced(output), "  "));
}

bool is_wrong(const CellRecord& cell) { return is_failure(result_of(cell)); }

bool has_details(const ShownCell& shown) {
  const CellRecord& cell = *shown.record;
  return !cell.notes.empty() || !shown_checks(cell).empty() || !shown_findings(cell).empty() ||
         !shown_undecided(cell).empty();
}

std::string mismatch_details(const Execution& cell) {
  if (!cell.mismatch || cell.mismatch->rows.empty()) return "";
  std::string table;
  for (const std::string& line : mismatch_lines(*cell.mismatch)) table += line + "\n";
  return fenced(ending(table, kMostOfAText)) + "\n";
}

/// The heading of a cell; for one as expected, also its symptom.
std::string summary_of(const ShownCell& shown, Naming naming) {
  const CellRecord& cell = *shown.record;
  const bool has_symptom = result_of(cell) == Result::as_expected && !shown_findings(cell).empty();
  return heading_of(shown, naming) + (has_symptom ? ": " + cell.symptom.text : "");
}

std::string detail_text(const ShownCell& shown, Naming naming, std::size_t most) {
  const CellRecord& cell = *shown.record;
  std::vector<std::string> points;
  const auto add_lines = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      points.push_back(fmt::format("- {}\n", sentence_text(line)));
    }
  };
  add_lines(shown_checks(cell));
  for (const ShownFinding& finding : shown_findings(cell)) points.push_back(finding_point(finding));
  add_lines(shown_undecided(cell));
  for (const std::string& note : cell.notes) {
    points.push_back(fmt::format("- note: {}\n", sentence_text(note)));
  }
  std::string text = list_text(points, most) + "\n" + mismatch_details(cell);
  if (!cell.source.empty()) {
    text += fmt::format("source: {}<br>\n", in_code(beginning(cell.source, kMostOfAText)));
  }
  if (!cell.reproduce.empty()) {
    text += fmt::format("again: {}\n", in_code(beginning(cell.reproduce, kMostOfAText)));
  }
  return collapsible(title_text(summary_of(shown, naming)), text, is_wrong(cell));
}

Part part_of(const CellRecord& cell) {
  if (is_wrong(cell)) return Part::wrong;
  return result_of(cell) == Result::undecided ? Part::undecided : Part::detail;
}

/// Failures first, then undecided cells, then the others.
std::vector<const ShownCell*> by_importance(const Section& section) {
  std::vector<const ShownCell*> cells;
  if (section.is_matrix) {
    cells = conspicuous_cells(section);
  } else {
    for (const ShownCell& cell : section.cells) cells.push_back(&cell);
  }
  std::stable_sort(cells.begin(), cells.end(), [&](const ShownCell* left, const ShownCell* right) {
    return part_of(*left->record) < part_of(*right->record);
  });
  return cells;
}

std::string matrix_line(const MatrixVariant& variant, const MatrixLine& line) {
  const std::string mark = line.mark == ' ' ? "" : fmt::format("**{}** ", line.mark);
  return mark + sentence_text(line_text(variant, line)) + "\n";
}

/// Unexpected cells come first if not all fit.
std::string matrix_list(const MatrixVariant& variant, std::size_t most) {
  std::vector<std::string> points;
  std::vector<std::string> others;
  for (const MatrixLine& line : variant.lines) {
    (line.mark == ' ' ? others : points).push_back("- " + matrix_line(variant, line));
  }
  std::move(others.begin(), others.end(), std::back_inserter(points));
  return fmt::format("{}:\n\n{}", title_text(variant.title), list_text(points, most));
}

/// A table collapsed below its title, after its charts.
std::string table_details(const Table& table, const TableLayout& layout,
                          const std::string& charts) {
  return collapsible(title_text(plain(table.spec.title)),
                     charts + fenced(untitled_table_text(table, layout)));
}

/// "FAILED: through-wrapper (fixed, must be right): ranks differ from step 1 on: w; 2 more not as
/// expected"; "NOT RUN: ..." if nothing else is unexpected; "as expected".
std::string symptom_of(const std::vector<const ShownCell*>& cells, Naming naming) {
  const auto count = [&](auto is_counted) {
    return std::count_if(cells.begin(), cells.end(), [&](const ShownCell* shown) {
      return is_counted(result_of(*shown->record));
    });
  };
  const auto wrong = count(
      [](Result result) { return result != Result::as_expected && result != Result::not_run; });
  const auto first = std::find_if(cells.begin(), cells.end(), [](const ShownCell* shown) {
    return result_of(*shown->record) != Result::as_expected;
  });
  if (first == cells.end()) return "as expected";
  const std::string more = wrong > 1 ? fmt::format("; {} more not as expected", wrong - 1) : "";
  return heading_of(**first, naming) + more;
}

/// What the kind of the first finding means, for readers who have no Lockstep: a point, or none.
std::vector<std::string> meaning_of_first(const std::vector<ClaimResult>& results) {
  for (const ClaimResult& result : results) {
    if (result.findings.empty()) continue;
    const FindingKind kind = result.findings.front().kind;
    return {fmt::format("- **{}**: {}\n", name(kind), sentence_text(meaning_of(kind)))};
  }
  return {};
}

Part part_of(ExitStatus status) {
  switch (status) {
    case ExitStatus::as_expected:
      return Part::detail;
    case ExitStatus::failed:
      return Part::wrong;
    default:
      return Part::undecided;
  }
}

}  // namespace

std::string sentence_text(const std::string& text) {
  return in_prose(beginning(text, kMostOfAText));
}

std::string title_text(const std::string& text) { return in_prose(beginning(text, kMostOfATitle)); }

std::string collapsible(const std::string& summary, const std::string& body, bool is_open) {
  return fmt::format("<details{}><summary>{}</summary>\n\n{}\n</details>\n\n",
                     is_open ? " open" : "", summary, body);
}

std::string list_text(const std::vector<std::string>& points, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && text.size() + points[i].size() > most) {
      return text + fmt::format("- {} more in `report.html`\n", points.size() - i);
    }
    text += points[i];
  }
  return text;
}

void Folds::put(Part part, const std::string& text) { pieces_.push_back({part, text, folds_}); }

/// `part`: the kind of its first piece.
void Folds::open(Part part, const std::string& title, const std::string& symptom) {
  ++folds_;
  const bool is_open = part == Part::wrong && !has_open_;
  has_open_ = has_open_ || is_open;
  pieces_.push_back({std::min(part, Part::heading),
                     fmt::format("<details{}><summary><b>{}</b>: {}</summary>\n\n",
                                 is_open ? " open" : "", title_text(title), title_text(symptom)),
                     folds_, "</details>\n\n"});
}

void Folds::add(Part part, const std::string& summary, const std::string& body) {
  if (!body.empty()) pieces_.push_back({part, collapsible(summary, body)});
}

/// A job with nothing to add to its row of the table has no fold.
void Folds::add(const JobRecord& job, const std::string& title) {
  const Part part = part_of(status_of(job));
  std::vector<std::string> points = meaning_of_first(job.results);
  for (const std::string& line : lines_of(job)) {
    points.push_back(fmt::format("- {}\n", sentence_text(line)));
  }
  const std::string text = list_text(points, most_) + "\n" + mismatch_details(job);
  if (text == "\n" && job.tables.empty()) return;
  open(part, title, heading_of(job));
  if (text != "\n") put(part, text);
  if (is_brief_) {
    add_in_brief(job);
  } else {
    add_tables(job, part == Part::wrong);
  }
}

void Folds::add_tables(const JobRecord& job, bool is_wrong) {
  for (const Table& table : job.tables) {
    const std::string charts = drift_charts(table);
    const bool is_evidence = is_wrong && !charts.empty();
    if (is_evidence) put(Part::chart, charts);
    put(Part::table, table_details(table, {}, is_evidence ? "" : charts));
  }
}

/// What a comment has room for; the other formats have the tables.
void Folds::add_in_brief(const JobRecord& job) {
  constexpr std::size_t kMostRows = 6;
  bool has_chart = false;
  for (const Table& table : job.tables) {
    const std::string charts = drift_charts(table);
    if (!charts.empty()) put(Part::chart, charts);
    has_chart = has_chart || !charts.empty();
  }
  if (has_chart || job.tables.empty()) return;
  TableLayout layout;
  layout.most_rows = kMostRows;
  put(Part::table, table_details(job.tables.front(), layout, ""));
}

/// As the console shows it; the answer is in the page's title or table.
void Folds::add(const Comparison& comparison) {
  std::vector<std::string> points;
  if (!comparison.pairs.empty()) points = meaning_of_first({comparison.pairs.back().result});
  for (const std::string& line : details_of(comparison)) {
    points.push_back(fmt::format("- {}\n", sentence_text(line)));
  }
  const Part part = part_of(status_of(comparison));
  if (comparison.pairs.empty()) {
    open(part, "Comparison", heading_of(comparison));
  } else {
    add(part, title_text(title_of(comparison)), list_text(points, most_));
  }
}

void Folds::add_matrix(const Section& section) {
  for (const MatrixVariant& variant : matrix_lines(section)) {
    const bool is_one_line = variant.lines.size() == 1;
    put(Part::matrix,
        (is_one_line ? matrix_line(variant, variant.lines.front()) : matrix_list(variant, most_)) +
            "\n");
  }
  const std::string footnote = matrix_footnote(section);
  if (!footnote.empty()) put(Part::matrix, sentence_text(footnote) + "\n\n");
}

void Folds::add_cells(const Section& section) {
  std::vector<std::string> others;
  const Naming naming = section.is_matrix ? Naming::with_axes : Naming::variant;
  for (const ShownCell* cell : by_importance(section)) {
    if (has_details(*cell)) {
      put(part_of(*cell->record), detail_text(*cell, naming, most_));
    } else {
      others.push_back(fmt::format("- {}\n", title_text(heading_of(*cell, naming))));
    }
  }
  if (others.empty()) return;
  put(Part::list,
      collapsible(counted(others.size(), "cell") + " without a finding", list_text(others, most_)));
}

void Folds::add(const Section& section) {
  const std::vector<const ShownCell*> cells = by_importance(section);
  const Part part = cells.empty() ? Part::detail : part_of(*cells.front()->record);
  open(part, section.title,
       symptom_of(cells, section.is_matrix ? Naming::with_axes : Naming::variant));
  if (section.is_matrix) {
    add_matrix(section);
    add_cells(section);
    return;
  }
  add_cells(section);
  for (const Table* table : section.tables) {
    put(Part::table, table_details(*table, {}, drift_charts(*table)));
  }
  const std::string cost = cost_text(section);
  if (!cost.empty()) put(Part::extra, collapsible(std::string(kTitleOfCost), fenced(cost)));
}

}  // namespace lockstep
