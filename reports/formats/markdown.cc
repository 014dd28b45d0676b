#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "reports/base/plain_text.h"
#include "reports/formats/console_table.h"
#include "reports/formats/job_report.h"
#include "reports/formats/markdown_parts.h"
#include "reports/formats/markdown_text.h"
#include "reports/formats/matrix.h"
#include "reports/formats/overview.h"
#include "reports/formats/renderer.h"
#include "reports/formats/sections.h"
#include "reports/formats/shown_findings.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

/// GitHub's limit for a comment is 65536 characters. The rest leaves room for the sentence about
/// omitted pieces and for a line added by a workflow.
constexpr std::size_t kMostBytes = 64000;
constexpr std::size_t kMostOfACell = 10000;
constexpr std::size_t kMostOfAText = 2000;
constexpr std::size_t kMostOfATitle = 400;

std::string sentence_text(const std::string& text) {
  return in_prose(beginning(text, kMostOfAText));
}

std::string title_text(const std::string& text) { return in_prose(beginning(text, kMostOfATitle)); }

std::string collapsible(const std::string& summary, const std::string& body, bool is_open = false) {
  return fmt::format("<details{}><summary>{}</summary>\n\n{}\n</details>\n\n",
                     is_open ? " open" : "", summary, body);
}

std::string table_row(const std::vector<Column>& columns, std::size_t row) {
  std::string text = "|";
  for (const Column& column : columns) text += fmt::format(" {} |", title_text(column.cells[row]));
  return text + "\n";
}

std::string detection_table(const RunRecord& run) {
  const std::vector<Column> columns = detection_columns(run);
  std::string text = table_row(columns, 0) + "|";
  for (const Column& column : columns) text += column.align == Align::left ? "---|" : "---:|";
  text += "\n";
  for (std::size_t row = 1; row < columns.front().cells.size(); ++row) {
    text += table_row(columns, row);
  }
  return text + "\n";
}

std::string finding_point(const ShownFinding& shown) {
  const Finding& finding = *shown.finding;
  const std::string text =
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

/// The points of a list that fit, and the number of the others.
std::string list_text(const std::vector<std::string>& points) {
  std::string text;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && text.size() + points[i].size() > kMostOfACell) {
      return text + fmt::format("- {} more in record.json\n", points.size() - i);
    }
    text += points[i];
  }
  return text;
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

std::string detail_text(const ShownCell& shown, Naming naming) {
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
  std::string text = list_text(points) + "\n" + mismatch_details(cell);
  if (!cell.source.empty()) {
    text += fmt::format("source: {}<br>\n", in_code(beginning(cell.source, kMostOfAText)));
  }
  if (!cell.reproduce.empty()) {
    text += fmt::format("again: {}\n", in_code(beginning(cell.reproduce, kMostOfAText)));
  }
  return collapsible(title_text(summary_of(shown, naming)), text, is_wrong(cell));
}

/// Failures first, then undecided cells, then the others.
std::vector<const ShownCell*> by_importance(const Section& section) {
  std::vector<const ShownCell*> cells;
  if (section.is_matrix) {
    cells = conspicuous_cells(section);
  } else {
    for (const ShownCell& cell : section.cells) cells.push_back(&cell);
  }
  const auto rank = [](const ShownCell* cell) {
    if (is_wrong(*cell->record)) return 0;
    return result_of(*cell->record) == Result::undecided ? 1 : 2;
  };
  std::stable_sort(cells.begin(), cells.end(), [&](const ShownCell* left, const ShownCell* right) {
    return rank(left) < rank(right);
  });
  return cells;
}

std::string matrix_line(const MatrixVariant& variant, const MatrixLine& line) {
  const std::string mark = line.mark == ' ' ? "" : fmt::format("**{}** ", line.mark);
  return mark + sentence_text(line_text(variant, line)) + "\n";
}

/// Unexpected cells come first if not all fit.
std::string matrix_list(const MatrixVariant& variant) {
  std::vector<std::string> points;
  std::vector<std::string> others;
  for (const MatrixLine& line : variant.lines) {
    (line.mark == ' ' ? others : points).push_back("- " + matrix_line(variant, line));
  }
  std::move(others.begin(), others.end(), std::back_inserter(points));
  return fmt::format("{}:\n\n{}", title_text(variant.title), list_text(points));
}

void append_matrix(Pieces& pieces, const Section& section) {
  for (const MatrixVariant& variant : matrix_lines(section)) {
    const bool is_one_line = variant.lines.size() == 1;
    pieces.push_back({Part::matrix, (is_one_line ? matrix_line(variant, variant.lines.front())
                                                 : matrix_list(variant)) +
                                        "\n"});
  }
  const std::string footnote = matrix_footnote(section);
  if (!footnote.empty()) pieces.push_back({Part::matrix, sentence_text(footnote) + "\n\n"});
}

/// A table collapsed below its first line.
std::string table_details(const std::string& table) {
  const std::size_t title = table.find(":\n");
  return collapsible(title_text(table.substr(0, title)), fenced(table.substr(title + 2)));
}

void append_tables(Pieces& pieces, const Section& section) {
  for (const Table* table : section.tables) {
    pieces.push_back({Part::table, table_details(table_text(*table))});
  }
}

void append_cost(Pieces& pieces, const Section& section) {
  const std::string cost = cost_text(section);
  if (!cost.empty()) pieces.push_back({Part::extra, table_details(cost)});
}

std::string others_in_words(std::size_t count) {
  return fmt::format("{} {} without a finding", count, count == 1 ? "cell" : "cells");
}

void append_section(Pieces& pieces, const Section& section) {
  pieces.push_back({Part::heading, fmt::format("### {}\n\n", title_text(section.title))});
  if (section.is_matrix) {
    append_matrix(pieces, section);
  } else {
    append_tables(pieces, section);
  }
  std::vector<std::string> others;
  const Naming naming = section.is_matrix ? Naming::with_axes : Naming::variant;
  for (const ShownCell* cell : by_importance(section)) {
    if (has_details(*cell)) {
      pieces.push_back(
          {is_wrong(*cell->record) ? Part::wrong : Part::detail, detail_text(*cell, naming)});
    } else {
      others.push_back(fmt::format("- {}\n", title_text(heading_of(*cell, naming))));
    }
  }
  if (!others.empty())
    pieces.push_back({Part::list, collapsible(others_in_words(others.size()), list_text(others))});
  if (!section.is_matrix) append_cost(pieces, section);
}

void append_job(Pieces& pieces, const JobRecord& job) {
  pieces.push_back({Part::heading, fmt::format("### {}\n\n{}\n\n", title_text(title_of(job)),
                                               sentence_text(heading_of(job)))});
  std::vector<std::string> points;
  for (const std::string& line : lines_of(job)) {
    points.push_back(fmt::format("- {}\n", sentence_text(line)));
  }
  const std::string text = list_text(points) + "\n" + mismatch_details(job);
  if (text != "\n") pieces.push_back({Part::wrong, text});
  for (const Table& table : job.tables) {
    pieces.push_back({Part::table, table_details(table_text(table))});
  }
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
std::string margins_text(const std::vector<Section>& sections) {
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
  return list_text(points);
}

std::string environment_text(const RunRecord& run) {
  const RunEnvironment& environment = run.environment;
  std::string text =
      fmt::format("- Lockstep {}, torch {}, {}, digest {}\n- started {} on {}\n",
                  title_text(environment.lockstep_version), title_text(environment.torch_version),
                  title_text(environment.compiler), title_text(environment.digest),
                  title_text(environment.started_utc), title_text(environment.host));
  const std::string command = fmt::format("{}", fmt::join(run.command, " "));
  if (!command.empty()) text += fmt::format("- {}\n", in_code(beginning(command, kMostOfAText)));
  for (const auto& [variable, value] : environment.variables) {
    text += fmt::format("- {}\n",
                        in_code(beginning(fmt::format("{}={}", variable, value), kMostOfAText)));
  }
  return text;
}

/// Facts about the run as a whole.
void append_context(Pieces& pieces, const RunRecord& run, const std::vector<Section>& sections) {
  std::string notes;
  for (const std::string& note : run.notes) {
    notes += fmt::format("note: {}\n\n", sentence_text(note));
  }
  if (!notes.empty()) pieces.push_back({Part::overview, notes});
  const std::string margins = margins_text(sections);
  if (!margins.empty()) pieces.push_back({Part::extra, collapsible("Margins", margins)});
  pieces.push_back({Part::list, collapsible("Environment", environment_text(run))});
}

/// "Lockstep: 260 of 261 cells as expected".
std::string title_of(const RunRecord& run) {
  if (!has_detections(run)) return "Lockstep";
  const auto right = std::count_if(run.cells.begin(), run.cells.end(), [](const CellRecord& cell) {
    return result_of(cell) == Result::as_expected;
  });
  return fmt::format("Lockstep: {} of {} {} as expected", right, run.cells.size(),
                     run.cells.size() == 1 ? "cell" : "cells");
}

}  // namespace

std::string render_markdown(const RunRecord& run) {
  const std::string verdict = fmt::format("## {}\n\n**{}**\n\n", title_text(title_of(run)),
                                          title_text(verdict_sentence(run)));
  Pieces pieces;
  if (has_detections(run)) {
    pieces.push_back({Part::overview, detection_table(run)});
  }
  for (const JobRecord& job : run.jobs) append_job(pieces, job);
  const std::vector<Section> sections = sections_of(run);
  for (const Section& section : sections) append_section(pieces, section);
  append_context(pieces, run, sections);
  const Pieces left_out = leave_out(pieces, kMostBytes - verdict.size());
  std::string text = verdict + sentence_about(left_out);
  for (const Piece& piece : pieces) text += piece.text;
  text.erase(text.find_last_not_of('\n') + 1);
  return text + "\n";
}

}  // namespace lockstep
