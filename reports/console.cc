#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>

#include "reports/console_table.h"
#include "reports/names.h"
#include "reports/renderer.h"

namespace lockstep {

namespace {

/// What is told under one title: the cells and tables of a scenario in one world with one choice of
/// axes.
struct Section {
  std::string title;
  std::vector<const Table*> tables;
  std::vector<const CellRecord*> cells;
};

Section& section_about(std::vector<Section>& sections, const std::string& scenario, int world_size,
                       const std::vector<AxisValue>& axes) {
  const std::string title = fmt::format("{}, {}", scenario, conditions(world_size, axes));
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const Section& section) { return section.title == title; });
  if (found != sections.end()) return *found;
  sections.push_back({title, {}, {}});
  return sections.back();
}

std::vector<Section> sections_of(const RunRecord& run) {
  std::vector<Section> sections;
  for (const CellRecord& record : run.cells) {
    const Cell& cell = record.cell;
    section_about(sections, cell.scenario, cell.world_size, cell.axes).cells.push_back(&record);
  }
  for (const Table& table : run.tables) {
    section_about(sections, table.scenario, table.world_size, table.axes).tables.push_back(&table);
  }
  return sections;
}

/// Text of a job or a framework as a terminal may show it: no control characters but newlines.
std::string printable(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\t') {
      safe += "    ";
    } else if (c != '\n' && (byte < 0x20 || byte == 0x7f)) {
      safe += fmt::format("\\x{:02x}", byte);
    } else {
      safe += c;
    }
  }
  return safe;
}

/// `text` in lines of at most kConsoleWidth columns, broken between words, each indented.
std::string wrapped(const std::string& text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string lines;
  std::string line;
  std::istringstream words(printable(text));
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kConsoleWidth) {
      lines += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? lines : lines + margin + line + "\n";
}

/// What a rank printed, line by line as it stood.
std::string quoted(const std::string& output) {
  std::string text;
  std::istringstream lines(printable(output));
  for (std::string line; std::getline(lines, line);) text += fmt::format("    | {}\n", line);
  return text;
}

std::string finding_text(const Finding& finding) {
  std::string text = wrapped(finding.sentence, 2);
  if (finding.failure && !finding.failure->last_output.empty()) {
    text += fmt::format("    last output of rank {}:\n", finding.failure->rank) +
            quoted(finding.failure->last_output);
  }
  return text;
}

std::string check_text(const Check& check) {
  const std::string reason = check.text.empty() ? "" : ": " + check.text;
  return wrapped(fmt::format("{}: {}{}", name(check.outcome), check.promise, reason), 2);
}

/// How close a cell came to the tolerance of its reference; nothing where there is none.
std::string margin_text(const CellRecord& cell) {
  std::optional<double> margin;
  for (const ClaimResult& result : cell.results) {
    if (result.claim.predicate != Predicate::equal_reference) continue;
    if (result.verdict != Verdict::holds) return "";
    if (result.margin) margin = std::max(margin.value_or(0), *result.margin);
  }
  if (!margin) return "";
  return *margin == 0
             ? "; bitwise the reference"
             : fmt::format("; off the reference by at most {:.2g} of what rounding explains",
                           *margin);
}

std::string cell_text(const CellRecord& cell) {
  std::string heading =
      fmt::format("{} ({}): {}", cell.cell.variant, name(cell.cell.role), name(cell.verdict));
  if (!cell.expectation.not_applicable.empty()) heading += ": " + cell.expectation.not_applicable;
  std::string text = wrapped(heading + margin_text(cell), 0);
  for (const Check& check : cell.checks) {
    if (!is_as_promised(check)) text += check_text(check);
  }
  bool has_findings = false;
  for (const ClaimResult& result : cell.results) {
    for (const Finding& finding : result.findings) text += finding_text(finding);
    has_findings = has_findings || !result.findings.empty();
  }
  for (const std::string& note : cell.notes) text += wrapped("note: " + note, 2);
  if (has_findings && !cell.source.empty()) text += fmt::format("  source: {}\n", cell.source);
  if (has_findings && !cell.reproduce.empty()) text += fmt::format("  again: {}\n", cell.reproduce);
  return text;
}

std::string section_text(const Section& section) {
  std::string text =
      fmt::format("{}\n{}\n\n", section.title, std::string(section.title.size(), '='));
  for (const Table* table : section.tables) text += table_text(*table) + "\n";
  for (const CellRecord* cell : section.cells) text += cell_text(*cell);
  return text + "\n";
}

std::string detection_row(const std::array<std::string, 7>& cells, std::size_t scenario_width) {
  return fmt::format("{:<{}} | {:>5} | {:>8} | {:>6} | {:>12} | {:>9} | {:>11}\n", cells[0],
                     scenario_width, cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]);
}

std::string detection_table(const RunRecord& run) {
  const std::vector<Detection> lines = detections(run);
  std::size_t width = std::string_view("scenario").size();
  for (const Detection& line : lines) width = std::max(width, line.scenario.size());
  std::string text = detection_row(
      {"scenario", "cells", "found", "missed", "false alarms", "undecided", "as expected"}, width);
  for (const Detection& d : lines) {
    text += detection_row(
        {d.scenario, std::to_string(d.cells), fmt::format("{} of {}", d.found, d.declared),
         std::to_string(d.missed), std::to_string(d.false_alarms), std::to_string(d.undecided),
         std::to_string(d.as_expected)},
        width);
  }
  return text;
}

std::string closing_line(const RunRecord& run) {
  constexpr std::array<std::string_view, 4> kSentences{
      "Everything is as expected", "Not everything is as expected",
      "Not everything could be decided", "Nothing ran"};
  std::array<int, Names<CellVerdict>::values.size()> cells{};
  for (const CellRecord& cell : run.cells) ++cells.at(static_cast<std::size_t>(cell.verdict));
  std::vector<std::string> counts;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] > 0)
      counts.push_back(fmt::format("{} {}", cells[i], Names<CellVerdict>::values[i]));
  }
  counts.insert(counts.begin(),
                fmt::format("{} {}", run.cells.size(), run.cells.size() == 1 ? "cell" : "cells"));
  const std::string_view sentence = kSentences.at(static_cast<std::size_t>(exit_status(run)));
  return wrapped(fmt::format("{}: {}.", sentence, fmt::join(counts, ", ")), 0);
}

}  // namespace

std::string render_console(const RunRecord& run) {
  std::string text;
  for (const Section& section : sections_of(run)) text += section_text(section);
  return text + detection_table(run) + "\n" + closing_line(run);
}

}  // namespace lockstep
