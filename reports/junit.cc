#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <string_view>

#include "reports/meeting_table.h"
#include "reports/names.h"
#include "reports/plain_text.h"
#include "reports/renderer.h"
#include "reports/sections.h"

namespace lockstep {

namespace {

/// XML 1.0 has no place for most control characters, nor for U+FFFE and U+FFFF, escaped or not.
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

/// What a suite or all of them come to.
struct Totals {
  int tests = 0;
  int failures = 0;
  int errors = 0;
  int skipped = 0;
  double seconds = 0;

  void add(const CellRecord& cell) {
    ++tests;
    const CellVerdict verdict = cell.verdict;
    if (verdict == CellVerdict::missed || verdict == CellVerdict::false_alarm) ++failures;
    if (verdict == CellVerdict::undecided) ++errors;
    if (verdict == CellVerdict::not_applicable) ++skipped;
    if (std::isfinite(cell.duration_s)) seconds += cell.duration_s;
  }

  void write_to(pugi::xml_node node) const {
    set(node, "tests", std::to_string(tests));
    set(node, "failures", std::to_string(failures));
    set(node, "errors", std::to_string(errors));
    set(node, "time", seconds_text(seconds));
  }
};

/// The first sentence that says what is wrong.
std::string message_of(const CellRecord& cell) {
  if (!cell.expectation.not_applicable.empty()) return cell.expectation.not_applicable;
  for (const Check& check : cell.checks) {
    if (!is_as_promised(check)) return in_words(check);
  }
  return std::string(name(cell.verdict));
}

/// All checks and findings, line by line.
std::string evidence_of(const CellRecord& cell) {
  std::string text;
  for (const Check& check : cell.checks) text += in_words(check) + "\n";
  for (const Finding* finding : findings_of(cell)) {
    text += finding->sentence + "\n";
    if (!finding->failure || finding->failure->last_output.empty()) continue;
    text += fmt::format("last output of rank {}:\n{}", finding->failure->rank,
                        prefixed(finding->failure->last_output, "| "));
  }
  if (!cell.missed_meeting) return text;
  for (const std::string& line : meeting_lines(*cell.missed_meeting)) text += line + "\n";
  return text;
}

/// What is worth knowing of a cell that passed as well.
std::string context_of(const CellRecord& cell) {
  std::string text = heading_of({.record = &cell}) + "\n";
  if (cell.verdict == CellVerdict::as_expected) {
    for (const Check* check : told_checks(cell)) text += in_words(*check) + "\n";
  }
  if (!cell.outcome.text.empty()) text += fmt::format("outcome: {}\n", cell.outcome.text);
  for (const std::string& note : cell.notes) text += fmt::format("note: {}\n", note);
  if (!cell.source.empty()) text += fmt::format("source: {}\n", cell.source);
  if (!cell.reproduce.empty()) text += fmt::format("again: {}\n", cell.reproduce);
  return text;
}

/// The element that says that a cell is not as expected; null when it is.
const char* outcome_element(CellVerdict verdict) {
  switch (verdict) {
    case CellVerdict::as_expected:
      return nullptr;
    case CellVerdict::not_applicable:
      return "skipped";
    case CellVerdict::undecided:
      return "error";
    case CellVerdict::missed:
    case CellVerdict::false_alarm:
      return "failure";
  }
  return nullptr;
}

void add_case(pugi::xml_node suite, const CellRecord& record) {
  const Cell& cell = record.cell;
  pugi::xml_node node = suite.append_child("testcase");
  set(node, "classname", cell.scenario);
  // The title begins with the scenario and a slash.
  set(node, "name", title_of(cell).substr(cell.scenario.size() + 1));
  set(node, "time", seconds_text(record.duration_s));
  if (const char* const outcome = outcome_element(record.verdict)) {
    pugi::xml_node child = node.append_child(outcome);
    set(child, "type", std::string(name(record.verdict)));
    set(child, "message", message_of(record));
    if (record.verdict != CellVerdict::not_applicable) {
      set_text(child, evidence_of(record));
    }
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

/// The suite of a scenario, with what is the same for all.
pugi::xml_node add_suite(pugi::xml_node root, const RunRecord& run, const Detection& scenario) {
  Totals totals;
  for (const CellRecord& cell : run.cells) {
    if (cell.cell.scenario == scenario.scenario) totals.add(cell);
  }
  pugi::xml_node suite = root.append_child("testsuite");
  set(suite, "name", scenario.scenario);
  totals.write_to(suite);
  set(suite, "skipped", std::to_string(totals.skipped));
  // JUnit's times have no zone.
  std::string started = run.environment.started_utc;
  if (started.ends_with('Z')) started.pop_back();
  set(suite, "timestamp", started);
  set(suite, "hostname", run.environment.host);
  add_properties(suite, run.environment);
  return suite;
}

struct Text : pugi::xml_writer {
  std::string text;
  void write(const void* data, std::size_t size) override {
    text.append(static_cast<const char*>(data), size);
  }
};

}  // namespace

std::string render_junit(const RunRecord& run) {
  pugi::xml_document document;
  set(document.append_child(pugi::node_declaration), "version", "1.0");
  set(document.first_child(), "encoding", "UTF-8");
  pugi::xml_node root = document.append_child("testsuites");
  set(root, "name", "lockstep");
  Totals totals;
  for (const CellRecord& cell : run.cells) totals.add(cell);
  totals.write_to(root);
  for (const Detection& scenario : detections(run)) {
    pugi::xml_node suite = add_suite(root, run, scenario);
    for (const CellRecord& cell : run.cells) {
      if (cell.cell.scenario == scenario.scenario) add_case(suite, cell);
    }
  }
  Text out;
  document.save(out, "  ", pugi::format_indent, pugi::encoding_utf8);
  return out.text;
}

}  // namespace lockstep
