#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "reports/base/csv_text.h"
#include "reports/base/names.h"
#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/job_report.h"
#include "reports/formats/renderer.h"
#include "reports/formats/sections.h"
#include "reports/formats/table_cells.h"
#include "reports/record/result.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

/// One line of the report; a cell that does not apply stays empty.
struct Line {
  std::string_view row;
  std::string scenario, variant;
  std::string_view role;
  int world_size = 0;
  std::string axes;
  std::string_view quantity, kind, phase;
  std::string tensor, element, step, rank, value;
  std::string_view verdict;
  std::string text, margin, tolerance, tolerance_from, repetition;
};

constexpr std::string_view kHeader =
    "row,scenario,variant,role,world_size,axes,quantity,kind,phase,tensor,element,step,rank,value,"
    "verdict,text,margin,tolerance,tolerance_from,repetition\n";

/// Whether a text begins like a formula, also in the full-width forms that spreadsheets take for
/// the same, and behind blanks.
bool begins_formula(std::string_view text) {
  constexpr std::array<std::string_view, 8> kSigns{"=",      "+",      "-",      "@",
                                                   "\uff1d", "\uff0b", "\uff0d", "\uff20"};
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](std::string_view sign) { return text.starts_with(sign); });
}

/// A text as a cell that a spreadsheet reads as text, and a CI service does not read as a command.
/// An apostrophe precedes what begins like a formula: the text, and what follows a semicolon, at
/// which spreadsheets of many countries divide a line.
std::string text_cell(std::string_view text) {
  std::string guarded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_begin = at == 0 || text[at - 1] == ';';
    if (is_begin && begins_formula(text.substr(at))) guarded += '\'';
    guarded += text[at];
  }
  std::string cell = csv_cell(guarded);
  for (std::size_t at = 0; at < cell.size(); ++at) {
    if (begins_command(cell, at)) cell.replace(at, 1, "\\x23");
  }
  return cell;
}

void append(std::string& csv, const Line& line) {
  const std::string world_size = std::to_string(line.world_size);
  std::vector<std::string> cells;
  const auto append_texts = [&](std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) cells.push_back(text_cell(text));
  };
  append_texts({line.row, line.scenario, line.variant, line.role, world_size, line.axes,
                line.quantity, line.kind, line.phase, line.tensor, line.element, line.step,
                line.rank});
  cells.push_back(line.value);  // a number; may begin with a minus
  append_texts(
      {line.verdict, line.text, line.margin, line.tolerance, line.tolerance_from, line.repetition});
  csv += fmt::format("{}\n", fmt::join(cells, ","));
}

/// The device follows the axes, unless it is the CPU.
std::string choices_in_words(DeviceKind device, const std::vector<AxisValue>& axes) {
  std::vector<std::string> words;
  if (device != DeviceKind::cpu) words.push_back(fmt::format("device={}", name(device)));
  for (const AxisValue& axis : axes) words.push_back(fmt::format("{}={}", axis.axis, axis.value));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string optional_text(const std::optional<double>& value) {
  return value ? exact_decimal(*value) : "";
}

Line line_about(const Cell& cell) {
  Line line;
  line.scenario = cell.scenario;
  line.variant = cell.variant;
  line.role = name(cell.role);
  line.world_size = cell.world_size;
  line.axes = choices_in_words(cell.device, cell.axes);
  line.repetition = std::to_string(cell.repetition);
  return line;
}

Line cell_line(const CellRecord& cell) {
  Line line = line_about(cell.cell);
  line.row = "cell";
  line.verdict = name(result_of(cell));
  if (result_of(cell) == Result::as_expected) return line;
  std::vector<std::string> words{cause_of(cell)};
  for (const auto& shown : {shown_checks(cell), shown_undecided(cell)}) {
    words.insert(words.end(), shown.begin(), shown.end());
  }
  line.text = fmt::format("{}", fmt::join(words, "; "));
  return line;
}

/// `line` with the verdict of the symptom and its location.
Line symptom_line(Line line, const Symptom& symptom) {
  line.row = "symptom";
  line.quantity = name(symptom.kind);
  line.tensor = symptom.tensor;
  if (symptom.step > 0) line.step = std::to_string(symptom.step);
  line.value = optional_text(symptom.ratio);
  line.text = symptom.text;
  return line;
}

void add_first_place(const Finding& finding, Line& line) {
  line.tensor = finding.tensor;
  line.step = std::to_string(finding.step);
  if (finding.failure) {
    line.rank = std::to_string(finding.failure->rank);
  } else {
    line.value = exact_decimal(finding.worst_difference);
  }
}

/// `line` with the location of the claim.
Line claim_line(Line line, const ClaimResult& result) {
  line.row = "claim";
  line.quantity = name(result.claim.predicate);
  if (result.claim.kind) line.kind = name(*result.claim.kind);
  if (result.claim.phase) line.phase = name(*result.claim.phase);
  line.verdict = name(result.verdict);
  line.text = result.reason;
  line.margin = optional_text(result.margin);
  line.tolerance = optional_text(result.tolerance);
  line.tolerance_from = result.tolerance_from;
  if (!result.findings.empty()) add_first_place(result.findings.front(), line);
  for (const Finding& finding : result.findings) {
    line.text += (line.text.empty() ? "" : " ") + finding.sentence;
  }
  return line;
}

void append_cost(std::string& csv, const CellRecord& cell) {
  if (!cell.cost) return;
  Line line = line_about(cell.cell);
  line.row = "cost";
  const auto append_value = [&](std::string_view quantity, double value) {
    line.quantity = quantity;
    line.value = exact_decimal(value);
    append(csv, line);
  };
  append_value("collectives", cell.cost->collectives);
  append_value("bytes", cell.cost->bytes);
  if (cell.cost->step_s) append_value("step_s", *cell.cost->step_s);
  if (cell.cost->memory) append_value("memory", static_cast<double>(*cell.cost->memory));
}

/// A table knows only the variant; role and device are the cell's. Null if there is none.
const Cell* cell_of(const RunRecord& run, const Table& table, const std::string& variant) {
  const auto cell = std::find_if(run.cells.begin(), run.cells.end(), [&](const CellRecord& record) {
    return record.cell.scenario == table.scenario && record.cell.variant == variant;
  });
  return cell == run.cells.end() ? nullptr : &cell->cell;
}

/// Completes a line about the owner of a table.
Line value_line(Line line, const Table& table) {
  line.row = "value";
  line.quantity = name(table.spec.quantity);
  line.kind = name(table.spec.kind);
  line.phase = name(table.spec.phase);
  line.tensor = table.spec.tensor;
  return line;
}

Line line_about_group(const RunRecord& run, const Table& table, const std::string& variant) {
  Line line;
  line.scenario = table.scenario;
  line.variant = variant;
  const Cell* const cell = cell_of(run, table, variant);
  if (cell) line.role = name(cell->role);
  line.world_size = table.world_size;
  line.axes = choices_in_words(cell ? cell->device : DeviceKind::cpu, table.axes);
  return line;
}

void append_values(std::string& csv, Line line, const Table& table, const Table::Entry& entry) {
  const Quantity quantity = table.spec.quantity;
  if (quantity == Quantity::element) line.element = std::to_string(table.spec.element);
  for (std::size_t i = 0; i < entry.values.size(); ++i) {
    if (quantity != Quantity::drift) line.rank = std::to_string(i);
    line.value = exact_decimal(entry.values[i]);
    append(csv, line);
  }
}

void append_entry(std::string& csv, Line line, const Table& table, const Table::Entry& entry) {
  const Quantity quantity = table.spec.quantity;
  append_values(csv, line, table, entry);
  if (quantity == Quantity::element || quantity == Quantity::norm) {
    line.quantity = "synced";
    line.value = !tells_agreement(table.spec, entry) ? "nan" : entry.synced ? "1" : "0";
    append(csv, line);
  }
  if (entry.estimate) {
    line.quantity = "estimate";
    line.value = exact_decimal(*entry.estimate);
    append(csv, line);
  }
  if (!entry.drift) return;
  // A norm is next to the drift of other tensors at another phase.
  line.quantity = name(Quantity::drift);
  line.kind = name(Kind::parameter);
  line.phase = name(Phase::pre_forward);
  line.tensor.clear();
  line.value = exact_decimal(*entry.drift);
  append(csv, line);
}

/// `groups`: a line about the owner of each group of columns.
void append_table(std::string& csv, const std::vector<Line>& groups, const Table& table) {
  for (const Table::Row& row : table.rows) {
    for (std::size_t i = 0; i < std::min(row.entries.size(), groups.size()); ++i) {
      Line line = value_line(groups[i], table);
      line.step = std::to_string(row.step);
      append_entry(csv, std::move(line), table, row.entries[i]);
    }
  }
}

void append_table(std::string& csv, const RunRecord& run, const Table& table) {
  std::vector<Line> groups;
  for (const TableSpec::Group& group : table.spec.groups) {
    groups.push_back(line_about_group(run, table, group.variant));
  }
  append_table(csv, groups, table);
}

void append_job(std::string& csv, const JobRecord& job) {
  Line line;
  line.scenario = job.title;
  line.variant = job.id;
  line.world_size = job.world_size;
  Line about = line;
  about.verdict = name(verdict_of(job));
  Line heading = about;
  heading.row = "job";
  heading.text = heading_of(job);
  append(csv, heading);
  if (!job.symptom.text.empty()) append(csv, symptom_line(about, job.symptom));
  for (const ClaimResult& result : job.results) append(csv, claim_line(about, result));
  for (const Table& table : job.tables) append_table(csv, {line}, table);
}

void append_comparison(std::string& csv, const Comparison& comparison) {
  Line about;
  about.scenario = title_of(comparison);
  about.verdict = verdict_name(status_of(comparison));
  Line heading = about;
  heading.row = "comparison";
  heading.text = heading_of(comparison);
  append(csv, heading);
  for (const ComparedPair& pair : comparison.pairs) {
    Line side = about;
    side.variant = pair.sides[1].title;
    side.world_size = pair.sides[1].world_size;
    append(csv, claim_line(side, pair.result));
  }
}

}  // namespace

std::string render_csv(const RunRecord& given) {
  const RunRecord run = without_secrets(given);
  std::string csv(kHeader);
  for (const CellRecord& cell : run.cells) {
    append(csv, cell_line(cell));
    Line about = line_about(cell.cell);
    about.verdict = name(result_of(cell));
    if (!cell.symptom.text.empty()) append(csv, symptom_line(about, cell.symptom));
    for (const ClaimResult& result : cell.results) append(csv, claim_line(about, result));
    append_cost(csv, cell);
  }
  for (const JobRecord& job : run.jobs) append_job(csv, job);
  for (const Comparison& one : run.comparisons) append_comparison(csv, one);
  for (const Table& table : run.tables) append_table(csv, run, table);
  return csv;
}

}  // namespace lockstep
