#include <fmt/format.h>

#include "reports/base/plain_text.h"
#include "reports/formats/console_table.h"
#include "reports/formats/job_report.h"
#include "reports/formats/matrix.h"
#include "reports/formats/overview.h"
#include "reports/formats/renderer.h"
#include "reports/formats/sections.h"
#include "reports/formats/shown_findings.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// Narrower than the rest: a terminal that breaks a line itself loses its place under the others.
constexpr std::size_t kMatrixWidth = 80;

std::string finding_text(const ShownFinding& shown) {
  const Finding& finding = *shown.finding;
  std::string text = wrapped(shown.sentence, 2);
  if (finding.failure && !finding.failure->last_output.empty()) {
    text += fmt::format("    last output of rank {}:\n", finding.failure->rank) +
            prefixed(printable(finding.failure->last_output), "    | ");
  }
  return text;
}

std::string mismatch_text(const Execution& cell) {
  std::string text;
  if (!cell.mismatch) return text;
  for (const std::string& line : mismatch_lines(*cell.mismatch)) {
    text += fmt::format("{}{}\n", text.empty() ? "  " : "    ", line);
  }
  return text;
}

std::string cell_text(const ShownCell& shown, bool with_axes) {
  const CellRecord& cell = *shown.record;
  const std::vector<ShownFinding> findings = shown_findings(cell);
  std::string text = wrapped(heading_of(shown, with_axes), 0, 4);
  for (const std::string& line : shown_checks(cell)) text += wrapped(line, 2);
  for (const ShownFinding& finding : findings) text += finding_text(finding);
  if (!findings.empty()) text += mismatch_text(cell);
  for (const std::string& line : shown_undecided(cell)) text += wrapped(line, 2);
  for (const std::string& note : cell.notes) text += wrapped("note: " + note, 2);
  if (findings.empty()) return text;
  if (!cell.source.empty()) text += fmt::format("  source: {}\n", plain(cell.source));
  if (!cell.reproduce.empty()) text += fmt::format("  again: {}\n", plain(cell.reproduce));
  return text;
}

/// A line with its mark where the eye runs down.
std::string marked(const std::string& text, std::size_t indent, char mark) {
  std::string lines = wrapped(text, indent, 4, kMatrixWidth);
  lines.front() = mark;
  return lines;
}

std::string matrix_text(const Section& section) {
  std::string text;
  for (const MatrixVariant& variant : matrix_lines(section)) {
    const bool is_one_line = variant.lines.size() == 1;
    if (!is_one_line) text += wrapped(variant.title + ":", 2, 4, kMatrixWidth);
    for (const MatrixLine& line : variant.lines) {
      text += marked(line_text(variant, line), is_one_line ? 2 : 4, line.mark);
    }
  }
  const std::string footnote = matrix_footnote(section);
  if (!footnote.empty()) text += "\n" + wrapped(footnote, 0, 0, kMatrixWidth);
  const auto cells = conspicuous_cells(section);
  if (!cells.empty()) text += "\n";
  for (const ShownCell* cell : cells) text += cell_text(*cell, true);
  return text + "\n";
}

std::string section_text(const Section& section) {
  const std::string title = plain(section.title);
  std::string text = fmt::format("{}\n{}\n\n", title, std::string(title.size(), '='));
  if (section.is_matrix) return text + matrix_text(section);
  for (const Table* table : section.tables) text += table_text(*table) + "\n";
  const std::string cost = cost_text(section);
  if (!cost.empty()) text += cost + "\n";
  for (const ShownCell& cell : section.cells) text += cell_text(cell, false);
  return text + "\n";
}

std::string job_text(const JobRecord& job) {
  const std::string title = plain(title_of(job));
  std::string text = fmt::format("{}\n{}\n\n", title, std::string(title.size(), '='));
  text += wrapped(heading_of(job), 0, 4);
  for (const std::string& line : lines_of(job)) text += wrapped(line, 2);
  return text + mismatch_text(job) + "\n";
}

}  // namespace

std::string render_console(const RunRecord& run) {
  std::string text;
  for (const JobRecord& job : run.jobs) text += job_text(job);
  for (const Section& section : sections_of(run)) text += section_text(section);
  for (const std::string& note : run.notes) text += wrapped("note: " + note, 0);
  if (!run.notes.empty()) text += "\n";
  if (has_detections(run)) {
    text += side_by_side(detection_columns(run)) + "\n";
  }
  return text + wrapped(verdict_sentence(run), 0);
}

}  // namespace lockstep
