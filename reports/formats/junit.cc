#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <string_view>
#include <vector>

#include "reports/base/names.h"
#include "reports/base/plain_text.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/brief_findings.h"
#include "reports/formats/job_report.h"
#include "reports/formats/renderer.h"
#include "reports/formats/sections.h"
#include "reports/formats/shown_findings.h"
#include "reports/formats/source_place.h"
#include "reports/record/mismatch_table.h"
#include "reports/record/result.h"
#include "reports/record/without_secrets.h"

namespace lockstep {

namespace {

/// XML 1.0 forbids most control characters, and U+FFFE and U+FFFF, escaped or not.
std::string xml_text(const std::string& text) {
  std::string safe = printable(text);
  for (std::size_t at = safe.find("\xef\xbf"); at != std::string::npos;
       at = safe.find("\xef\xbf", at + 3)) {
    if (safe[at + 2] == '\xbe' || safe[at + 2] == '\xbf') safe[at + 2] = '\xbd';
  }
  return safe;
}

void set(pugi::xml_node node, const char* attribute, const std::string& value) {
  node.append_attribute(attribute).set_value(xml_text(value).c_str());
}

void set_text(pugi::xml_node node, const std::string& text) {
  node.text().set(xml_text(text).c_str());
}

std::string seconds_text(double seconds) {
  return fmt::format("{:.3f}", std::isfinite(seconds) ? std::max(seconds, 0.0) : 0.0);
}

constexpr std::string_view kFailure = "failure";
constexpr std::string_view kError = "error";
constexpr std::string_view kSkipped = "skipped";

/// The element of an unexpected case; empty if it is as expected.
std::string_view element_of(const CellRecord& cell) {
  switch (result_of(cell)) {
    case Result::as_expected:
      return "";
    case Result::failed:
    case Result::not_found:
      return kFailure;
    case Result::undecided:
      return kError;
    case Result::not_run:
      break;
  }
  return cell.verdict == CellVerdict::not_applicable ? kSkipped : kError;
}

std::string_view element_of(ExitStatus status) {
  switch (status) {
    case ExitStatus::as_expected:
      return "";
    case ExitStatus::failed:
      return kFailure;
    default:
      return kError;
  }
}

std::string_view element_of(const JobRecord& job) {
  return job.not_run ? kError : element_of(status_of(job));
}

/// Why a case is unexpected: the stable words of the attribute `type`.
enum class CaseType {
  unexpected_finding,
  error_raised,
  rank_died,
  hang,
  mismatch,
  ranks_differ,
  wrong_values,
  never_trained,
  exceeds_memory,
  not_reproduced,
  undecided,
  not_applicable,
  interrupted,
  machine_failed,
  became_not_finite,
  same_samples
};

}  // namespace

template <>
struct Names<CaseType> {
  static constexpr std::array<std::string_view, 16> values{
      "unexpected finding", "error raised",   "rank died",    "hang",
      "mismatch",           "ranks differ",   "wrong values", "never trained",
      "exceeds memory",     "not reproduced", "undecided",    "not applicable",
      "interrupted",        "machine failed", "not finite",   "same samples"};
};

namespace {

bool is_death(const RankExit& end) {
  return end.kind == ExitKind::signalled || end.kind == ExitKind::exited ||
         end.kind == ExitKind::unstarted;
}

CaseType type_by_symptom(const Execution& execution) {
  switch (execution.symptom.kind) {
    case SymptomKind::raised:
    case SymptomKind::raised_late:
      return CaseType::error_raised;
    case SymptomKind::hung:
      return CaseType::hang;
    case SymptomKind::killed:
      return CaseType::rank_died;
    case SymptomKind::not_finished:
      return std::any_of(execution.exits.begin(), execution.exits.end(), is_death)
                 ? CaseType::rank_died
                 : CaseType::hang;
    case SymptomKind::mismatched:
      return CaseType::mismatch;
    case SymptomKind::ranks_differ:
      return CaseType::ranks_differ;
    case SymptomKind::agree_but_wrong:
      return CaseType::wrong_values;
    case SymptomKind::became_not_finite:
      return CaseType::became_not_finite;
    case SymptomKind::same_samples:
      return CaseType::same_samples;
    case SymptomKind::never_trained:
      return CaseType::never_trained;
    case SymptomKind::exceeds_memory:
      return CaseType::exceeds_memory;
    default:
      return CaseType::unexpected_finding;
  }
}

CaseType type_of_failure(const CellRecord& cell) {
  return is_explained_by_symptom(cell) ? type_by_symptom(cell) : CaseType::unexpected_finding;
}

CaseType type_of(const CellRecord& cell) {
  switch (result_of(cell)) {
    case Result::not_found:
      return CaseType::not_reproduced;
    case Result::undecided:
      return CaseType::undecided;
    case Result::not_run:
      if (cell.not_run) return CaseType::machine_failed;
      return cell.verdict == CellVerdict::not_applicable ? CaseType::not_applicable
                                                         : CaseType::interrupted;
    default:
      return type_of_failure(cell);
  }
}

/// Without spaces, because some readers cut there:
/// "bypass[w2,over=mpi,on=sim,tiles=4,repetition=2]".
std::string case_name(const Cell& cell) {
  std::string text = fmt::format("{}[w{}", cell.variant, cell.world_size);
  if (cell.backend != Cell().backend) text += fmt::format(",over={}", name(cell.backend));
  if (cell.device != Cell().device) text += fmt::format(",on={}", name(cell.device));
  for (const AxisValue& axis : cell.axes) text += fmt::format(",{}={}", axis.axis, axis.value);
  if (cell.repetition > 1) text += fmt::format(",repetition={}", cell.repetition);
  text += "]";
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

/// The totals of one suite or of all.
struct Totals {
  int tests = 0;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  double seconds = 0;

  void add(std::string_view element, double duration_s) {
    ++tests;
    if (element == kFailure) ++failures;
    if (element == kError) ++errors;
    if (element == kSkipped) ++skipped;
    if (std::isfinite(duration_s)) seconds += duration_s;
  }

  template <class Record>
  void add(const Record& record) {
    add(element_of(record), record.duration_s);
  }

  void write_to(pugi::xml_node node) const {
    set(node, "tests", std::to_string(tests));
    set(node, "failures", std::to_string(failures));
    set(node, "errors", std::to_string(errors));
    set(node, "time", seconds_text(seconds));
  }
};

/// The cause or symptom, and after it the size of the first finding.
template <class Record>
std::string with_numbers(const std::string& cause, const Record& record) {
  const std::vector<ShownFinding> findings = brief_findings(record);
  const bool has_numbers = !findings.empty() && !findings[0].sentence.empty();
  if (!has_numbers || findings[0].finding->failure) return cause;
  return fmt::format("{}; {}", cause, findings[0].sentence);
}

/// The symptom first, without the word that the element says already.
std::string message_of(const JobRecord& job) {
  if (job.not_run) return job.not_run->reason;
  if (!job.faults.empty()) return job.faults.front();
  const bool is_symptom = is_to_agree(job) && verdict_of(job) == Verdict::violated;
  return is_symptom ? with_numbers(job.symptom.text, job) : heading_of(job);
}

void set_place(pugi::xml_node node, const SourcePlace& place) {
  if (place.file.empty()) return;
  set(node, "file", place.file);
  if (!place.line.empty()) set(node, "line", place.line);
}

/// The cause, its consequences, and the result of each expectation, line by line.
std::string evidence_of(const CellRecord& cell) {
  std::string text = cause_of(cell) + "\n";
  for (const ShownFinding& shown : shown_findings(cell)) {
    if (!shown.sentence.empty()) text += shown.sentence + "\n";
    const auto& failure = shown.finding->failure;
    if (!failure || failure->last_output.empty()) continue;
    text += fmt::format("last output of rank {}:\n{}", failure->rank,
                        prefixed(failure->last_output, "| "));
  }
  if (cell.mismatch) {
    for (const std::string& line : mismatch_lines(*cell.mismatch)) text += line + "\n";
  }
  for (const std::string& line : shown_undecided(cell)) text += line + "\n";
  for (const Check& check : cell.checks) {
    const bool is_told =
        check.result == Check::Result::undecided || is_explained_by_cause(cell, check);
    if (!is_told) text += check_in_words(check) + "\n";
  }
  return text;
}

/// Information that is useful even if a cell passed.
std::string context_of(const CellRecord& cell) {
  std::string text = heading_of({.record = &cell}) + "\n";
  if (result_of(cell) == Result::as_expected) {
    for (const std::string& line : shown_checks(cell)) text += line + "\n";
  }
  if (!cell.symptom.text.empty()) text += fmt::format("symptom: {}\n", cell.symptom.text);
  for (const std::string& note : cell.notes) text += fmt::format("note: {}\n", note);
  if (!cell.source.empty()) text += fmt::format("source: {}\n", cell.source);
  if (!cell.reproduce.empty()) text += fmt::format("again: {}\n", cell.reproduce);
  return text;
}

void add_case(pugi::xml_node suite, const CellRecord& record) {
  pugi::xml_node node = suite.append_child("testcase");
  set(node, "classname", record.cell.scenario);
  set(node, "name", case_name(record.cell));
  set(node, "time", seconds_text(record.duration_s));
  set_place(node, place_of(record.source));
  if (const std::string_view element = element_of(record); !element.empty()) {
    pugi::xml_node child = node.append_child(element.data());
    set(child, "type", std::string(name(type_of(record))));
    set(child, "message", with_numbers(cause_of(record), record));
    if (element != kSkipped) set_text(child, evidence_of(record));
  }
  set_text(node.append_child("system-out"), context_of(record));
}

void add_properties(pugi::xml_node suite, const RunEnvironment& environment) {
  pugi::xml_node properties = suite.append_child("properties");
  const auto add = [&](const std::string& property, const std::string& value) {
    pugi::xml_node node = properties.append_child("property");
    set(node, "name", property);
    set(node, "value", value);
  };
  add("lockstep", environment.lockstep_version);
  add("torch", environment.torch_version);
  add("compiler", environment.compiler);
  for (const auto& [variable, value] : environment.variables) add(variable, value);
}

/// The file of a scenario, without the line of the branch point.
std::string source_file(const RunRecord& run, const std::string& scenario) {
  const auto cell = std::find_if(run.cells.begin(), run.cells.end(), [&](const CellRecord& record) {
    return record.cell.scenario == scenario;
  });
  return place_of(cell->source).file;
}

/// A suite, with the properties shared by all.
pugi::xml_node add_suite(pugi::xml_node root, const RunRecord& run, const std::string& title,
                         const Totals& totals) {
  pugi::xml_node suite = root.append_child("testsuite");
  set(suite, "name", title);
  totals.write_to(suite);
  set(suite, "skipped", std::to_string(totals.skipped));
  // JUnit's times have no time zone.
  std::string started = run.environment.started_utc;
  if (started.ends_with('Z')) started.pop_back();
  set(suite, "timestamp", started);
  set(suite, "hostname", run.environment.host);
  return suite;
}

void add_scenario(pugi::xml_node root, const RunRecord& run, const std::string& scenario) {
  std::vector<const CellRecord*> cells;
  Totals totals;
  for (const CellRecord& cell : run.cells) {
    if (cell.cell.scenario != scenario) continue;
    cells.push_back(&cell);
    totals.add(cell);
  }
  pugi::xml_node suite = add_suite(root, run, scenario, totals);
  set(suite, "file", source_file(run, scenario));
  add_properties(suite, run.environment);
  for (const CellRecord* const cell : cells) add_case(suite, *cell);
}

CaseType type_of(const JobRecord& job) {
  if (job.not_run) return CaseType::machine_failed;
  if (status_of(job) != ExitStatus::failed) return CaseType::undecided;
  if (!is_to_agree(job)) return CaseType::not_reproduced;
  return job.faults.empty() ? type_by_symptom(job) : CaseType::unexpected_finding;
}

/// A suite of one case.
void add_job(pugi::xml_node root, const RunRecord& run, const JobRecord& job) {
  Totals totals;
  totals.add(job);
  pugi::xml_node suite = add_suite(root, run, title_of(job), totals);
  add_properties(suite, run.environment);
  pugi::xml_node node = suite.append_child("testcase");
  set(node, "classname", job.title);
  set(node, "name", fmt::format("stays in lockstep, {}", counted(job.world_size, "rank")));
  set(node, "time", seconds_text(job.duration_s));
  set_place(node, place_of(job));
  std::string lines;
  for (const std::string& line : lines_of(job)) lines += line + "\n";
  if (const std::string_view element = element_of(job); !element.empty()) {
    pugi::xml_node child = node.append_child(element.data());
    set(child, "type", std::string(name(type_of(job))));
    set(child, "message", message_of(job));
    set_text(child, lines);
  }
  set_text(node.append_child("system-out"), heading_of(job) + "\n" + lines);
}

CaseType type_of(const Comparison& comparison) {
  if (status_of(comparison) != ExitStatus::failed) return CaseType::undecided;
  const bool is_bug = comparison.purpose == ComparisonPurpose::reference &&
                      comparison.expected != ComparisonExpectation::agrees;
  if (is_bug) return CaseType::not_reproduced;
  switch (comparison.pairs.back().sides[1].outcome) {
    case SideOutcome::raised:
    case SideOutcome::out_of_memory:
      return CaseType::error_raised;
    case SideOutcome::hung:
      return CaseType::hang;
    case SideOutcome::died:
      return CaseType::rank_died;
    case SideOutcome::ranks_differ:
    case SideOutcome::wrong:
    case SideOutcome::not_finite:
    case SideOutcome::trained:
      break;
  }
  return CaseType::wrong_values;
}

/// "equals train.py, 1 rank"; of a fix "is fixed".
std::string claim_of(const Comparison& comparison) {
  if (comparison.purpose == ComparisonPurpose::fix) return "is fixed";
  if (comparison.purpose == ComparisonPurpose::repetition) return "reproduces";
  if (comparison.pairs.empty()) return "equals the reference";
  const ComparedSide& reference = comparison.pairs.front().sides[0];
  return fmt::format("equals {}", reference.title);
}

/// A suite of one case.
void add_comparison(pugi::xml_node root, const RunRecord& run, const Comparison& comparison) {
  const std::string_view element = element_of(status_of(comparison));
  Totals totals;
  totals.add(element, 0);
  pugi::xml_node suite = add_suite(root, run, title_of(comparison), totals);
  add_properties(suite, run.environment);
  pugi::xml_node node = suite.append_child("testcase");
  set(node, "classname",
      comparison.pairs.empty() ? "comparison" : comparison.pairs.back().sides[1].title);
  set(node, "name", claim_of(comparison));
  set(node, "time", seconds_text(0));
  std::string lines;
  for (const std::string& line : lines_of(comparison)) lines += line + "\n";
  if (!element.empty()) {
    pugi::xml_node child = node.append_child(element.data());
    set(child, "type", std::string(name(type_of(comparison))));
    set(child, "message", heading_of(comparison));
    set_text(child, lines);
  }
  set_text(node.append_child("system-out"), lines);
}

struct Text : pugi::xml_writer {
  std::string text;
  void write(const void* data, std::size_t size) override {
    text.append(static_cast<const char*>(data), size);
  }
};

}  // namespace

std::string render_junit(const RunRecord& given) {
  const RunRecord run = without_secrets(given);
  pugi::xml_document document;
  set(document.append_child(pugi::node_declaration), "version", "1.0");
  set(document.first_child(), "encoding", "UTF-8");
  pugi::xml_node root = document.append_child("testsuites");
  set(root, "name", "lockstep");
  Totals totals;
  for (const CellRecord& cell : run.cells) totals.add(cell);
  for (const JobRecord& job : run.jobs) totals.add(job);
  for (const Comparison& one : run.comparisons) totals.add(element_of(status_of(one)), 0);
  totals.write_to(root);
  for (const Detection& scenario : detections(run)) add_scenario(root, run, scenario.scenario);
  for (const JobRecord& job : run.jobs) add_job(root, run, job);
  for (const Comparison& one : run.comparisons) add_comparison(root, run, one);
  Text out;
  document.save(out, "  ", pugi::format_indent, pugi::encoding_utf8);
  return out.text;
}

}  // namespace lockstep
