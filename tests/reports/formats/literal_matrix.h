#pragma once

#include <string>
#include <vector>

#include "tests/reports/formats/literal_run.h"

namespace lockstep {

inline CellRecord matrix_cell(const std::string& variant, Role role,
                              const std::vector<AxisValue>& axes, Symptom outcome) {
  CellRecord record = literal_cell("frozen-tower", variant, role, CellVerdict::as_expected);
  record.cell.axes = axes;
  for (AxisValue& chosen : record.cell.axes) {
    chosen.is_default = chosen == AxisValue{"optimizer", "sgd"} ||
                        chosen == AxisValue{"view", "off"} || chosen == AxisValue{"k", "2"};
  }
  record.folder = folder_of(record.cell);
  record.symptom = std::move(outcome);
  if (role == Role::reference) record.cost.reset();
  return record;
}

/// Two variants over several choices, one that depends on no axis, and their reference. Also a cell
/// that is not as expected, one that is undecided and one that cannot be run.
inline RunRecord literal_matrix() {
  const auto axes = [](const std::string& view, const std::string& k) {
    return std::vector<AxisValue>{{"optimizer", "sgd"}, {"view", view}, {"k", k}};
  };
  using K = SymptomKind;
  RunRecord run = literal_run();
  run.cells = {
      matrix_cell("frozen", Role::buggy, axes("on", "2"),
                  literal_outcome(K::ranks_differ, "ranks differ from step 1 on: mlp.gate.weight")),
      matrix_cell("frozen", Role::buggy, axes("on", "3"),
                  literal_outcome(K::raised,
                                  "raised in step 1: Expected to have finished reduction in the "
                                  "prior iteration before starting a new one.")),
      matrix_cell("frozen", Role::buggy, axes("off", "2"),
                  literal_outcome(K::never_trained, "never trained: mlp.gate.weight and 2 more")),
      matrix_cell("frozen", Role::buggy, axes("off", "3"),
                  literal_outcome(K::exceeds_memory, "exceeds memory: 3.1 times the reference's")),
      matrix_cell("thawed", Role::fixed, {{"optimizer", "sgd"}, {"k", "2"}},
                  literal_outcome(K::right, "right")),
      matrix_cell("thawed", Role::fixed, {{"optimizer", "sgd"}, {"k", "3"}},
                  literal_false_alarm().symptom),
      matrix_cell("thawed", Role::fixed, {{"optimizer", "sgd"}, {"k", "4"}},
                  literal_undecided().symptom),
      matrix_cell("thawed", Role::fixed, {{"optimizer", "sgd"}, {"k", "9"}},
                  literal_not_applicable().symptom),
      matrix_cell("averaged", Role::wrong_fix, {},
                  literal_outcome(K::not_finished,
                                  "not finished: rank 1 did not finish within its limit of 2 s in "
                                  "step 2")),
      matrix_cell("reference", Role::reference, {{"optimizer", "sgd"}, {"k", "2"}},
                  literal_outcome(K::right, "right")),
      matrix_cell("reference", Role::reference, {{"optimizer", "sgd"}, {"k", "3"}},
                  literal_outcome(K::right, "right"))};
  CellRecord& alarm = run.cells[5];
  alarm.verdict = CellVerdict::false_alarm;
  alarm.results[0].verdict = Verdict::violated;
  alarm.results[0].findings = {literal_divergence()};
  alarm.checks[0] = literal_false_alarm().checks[0];
  CellRecord& undecided = run.cells[6];
  undecided.verdict = CellVerdict::undecided;
  undecided.results[0].verdict = Verdict::undecided;
  undecided.checks[0] = literal_undecided().checks[0];
  CellRecord& unrun = run.cells[7];
  const std::string folder = unrun.folder;
  unrun = literal_not_applicable();
  unrun.folder = folder;
  unrun.cell = run.cells[6].cell;
  unrun.cell.axes = {{"optimizer", "sgd", true}, {"k", "9"}};
  // Another scenario, run with one choice, is reported as usual.
  run.cells.push_back(literal_buggy());
  run.tables = {published_drift(), literal_distances()};
  run.tables[1].scenario = "frozen-tower";
  run.tables[1].axes = run.cells[0].cell.axes;
  run.notes = {"matrix: 11 of 512 cells, covering every pair of axis values"};
  return run;
}

}  // namespace lockstep
