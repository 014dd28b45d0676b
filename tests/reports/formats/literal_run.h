#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reports/record/run_record.h"
#include "tests/reports/formats/literal_tables.h"

namespace lockstep {

/// A symptom in the first step, about "weight".
inline Symptom literal_outcome(SymptomKind kind, const std::string& text) {
  Symptom outcome;
  outcome.kind = kind;
  outcome.text = text;
  if (kind == SymptomKind::right) return outcome;
  outcome.step = outcome.wrong_step = 1;
  outcome.tensor = "weight";
  return outcome;
}

inline CellRecord literal_cell(const std::string& scenario, const std::string& variant, Role role,
                               CellVerdict verdict) {
  CellRecord record;
  record.cell = {scenario, variant, role, 2, {}, Backend::gloo, DeviceKind::cpu, 5, 0};
  record.folder = folder_of(record.cell);
  record.reference_folder = scenario + "/reference/w2";
  record.processes = 2;
  record.duration_s = 0.125;
  record.source = "scenarios/synchronisation/loss_on_unwrapped_module.cc:41";
  record.reproduce = "lockstep run " + scenario + "/" + variant + " --ranks 2 --steps 5";
  record.manifest = ManifestSeal{9, 812, "00c1d2e3f4051627384950a1b2c3d4e5"};
  record.steps = {5, 1, 5};
  record.claims = {agree_across_ranks(Kind::gradient, Phase::pre_step), ranks_finish()};
  record.exits = {{.rank = 0, .order = 1, .step = 5, .line = 41, .step_s = 0.00025},
                  {.rank = 1, .order = 0, .step = 5, .line = 41, .step_s = 0.0003}};
  record.cost = Cost{2, 80, 0.0003};
  record.symptom = literal_outcome(SymptomKind::right, "right");
  for (const Claim& claim : record.claims) {
    ClaimResult result;
    result.claim = claim;
    result.verdict = Verdict::holds;
    result.comparisons = 10;
    record.results.push_back(result);
    record.checks.push_back({"keeps " + sentence(claim), Check::Result::as_promised, "", claim});
  }
  record.verdict = verdict;
  return record;
}

inline Finding literal_divergence() {
  Finding finding;
  finding.claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  finding.step = 1;
  finding.tensor = "weight";
  finding.groups = {{0, 2, 3}, {1}};
  finding.first_difference = ElementDifference{
      {0, 0}, "rank 0", "rank 1", 0.1, 0.30000000000000004, "0x3dcccccd", "0x3e99999a", 13421773};
  finding.differing_elements = 16;
  finding.elements = 16;
  finding.worst_difference = 0.2;
  finding.relative_difference = 1.0 / 3;
  finding.tolerance = 4.76837158203125e-07;
  finding.ratio = 0.5;
  finding.cosine = 0.9375;
  finding.multiple = {0.5, 1e-6, {{CauseOfRatio::averaged_twice, 2}}};
  finding.places = 10;
  finding.last_step = 5;
  finding.last_worst_difference = 1e-300;
  finding.sentence =
      "gradients do not agree across ranks: first in step 1, weight: ranks 0,2,3 agree; 1 differs; "
      "16 of 16 elements, by up to 0.2; element [0, 0] is 0.1 on rank 0 and 0.3 on rank 1 "
      "(0x3dcccccd, 0x3e99999a; 13421773 ULP apart). Ranks still differ at step 5 (max "
      "1e-300).";
  finding.tensors = {"weight", "bias"};
  finding.attribution = GradientAttribution::mixture;
  finding.kind = FindingKind::gradients_differ;
  return finding;
}

inline Finding literal_failure(int rank, const std::string& how, const std::string& error,
                               const std::string& output) {
  Finding finding;
  finding.claim = ranks_finish();
  finding.step = 2;
  finding.last_step = 2;
  finding.places = 1;
  finding.failure = RankFailure{rank, how, error, output, {}};
  finding.kind = how.starts_with("raised")       ? FindingKind::rank_raised_error
                 : how.starts_with("was killed") ? FindingKind::rank_killed
                                                 : FindingKind::rank_hung;
  finding.sentence = "rank " + std::to_string(rank) + " " + how + " in step 2" +
                     (error.empty() ? "." : ": " + error + ".");
  return finding;
}

inline CellRecord literal_buggy() {
  CellRecord cell =
      literal_cell("loss-on-unwrapped-module", "bypass", Role::buggy, CellVerdict::as_expected);
  cell.expectation.breaks = {cell.claims[0]};
  cell.expectation.meets = {"opentslm-49-gradients"};
  cell.expectation.symptom = SymptomKind::ranks_differ;
  cell.expectation.pins = {{.claim = cell.claims[0],
                            .steps = {1, 2},
                            .last_step = 5,
                            .tensors = {"weight", "bias*"},
                            .attribution = GradientAttribution::mixture,
                            .ratio = Range{0.4995, 0.5005},
                            .groups = {{0, 2, 3}, {1}},
                            .culprits = {1},
                            .why = "the direction is the seed's"}};
  cell.symptom = literal_outcome(SymptomKind::ranks_differ, "ranks differ from step 1 on: weight");
  cell.results[0].verdict = Verdict::violated;
  cell.results[0].margin = std::numeric_limits<double>::infinity();
  cell.results[0].findings = {literal_divergence()};
  cell.checks[0] = {"breaks gradients agree across ranks", Check::Result::found, "",
                    cell.claims[0]};
  cell.checks.push_back({"results in 'ranks differ'", Check::Result::as_promised, ""});
  cell.checks.push_back({"meets opentslm-49-gradients", Check::Result::as_promised, ""});
  return cell;
}

inline RunRecord literal_run_of(std::vector<CellRecord> cells) {
  RunRecord run;
  run.cells = std::move(cells);
  return run;
}

/// Rank 1 of three never called the second collective.
inline CollectiveMismatch literal_mismatch() {
  const CallOfRank reduce{"allreduce avg float32 [4], gradient of w", "sync.cc:36", false, 0};
  CallOfRank waiting = reduce;
  waiting.is_open = true;
  waiting.open_s = 2.03125;
  CollectiveMismatch missed;
  missed.fault = MismatchFault::missing;
  missed.group = "world";
  missed.number = 2;
  missed.step = 2;
  missed.culprits = {1};
  missed.waiting = {0, 2};
  missed.sentence = "rank 1 never entered collective 2 of the group world in step 2";
  missed.rows = {{1, 1, {reduce, reduce, reduce}, false}, {2, 2, {waiting, {}, waiting}, true}};
  return missed;
}

inline CellRecord literal_missed() {
  CellRecord cell = literal_cell("error-after-damage", "as-was", Role::buggy, CellVerdict::missed);
  cell.cell.axes = {{"tiles", "4"}, {"bucket_view", "on"}};
  cell.folder = folder_of(cell.cell);
  cell.expectation.raises = {{"marked as ready twice", 2, 1}};
  cell.exits = {
      {0, ExitKind::raised, 1, 2, 2, "Expected to mark a variable ready only once", "", ""},
      {1, ExitKind::signalled, 6, 0, 2, "", "SIGABRT",
       "terminate called after throwing\n\tan instance of 'gloo::EnforceNotMet'\n\x1b[31mred"},
      {2, ExitKind::unfinished, 0, 1, 2, "", "limit of 2 s", "waiting"}};
  cell.exits[2].cause = ExitCause::time_limit;
  cell.exits[2].ended_ns = 40122776473251;
  cell.launcher = "mpirun -n 3";
  cell.mismatch = literal_mismatch();
  cell.cost.reset();
  cell.results[1].verdict = Verdict::violated;
  for (const RankExit& end : cell.exits) {
    cell.results[1].findings.push_back(
        literal_failure(end.rank, exit_in_words(end), end.error, end.last_output));
  }
  cell.results[1].findings[0].failure->lag = 1;
  cell.symptom.kind = SymptomKind::raised_late;
  cell.symptom.step = 2;
  cell.symptom.wrong_step = 1;
  cell.symptom.error = "Expected to mark a variable ready only once";
  cell.symptom.text = "raised in step 2 after a wrong step 1: " + cell.symptom.error;
  cell.checks[1] = {"breaks ranks finish", Check::Result::found, "", ranks_finish()};
  cell.checks.push_back(
      {"raises \"marked as ready twice\"", Check::Result::missed, "no rank raised it"});
  return cell;
}

inline CellRecord literal_false_alarm() {
  CellRecord cell = literal_cell("loss-on-unwrapped-module", "through-wrapper", Role::fixed,
                                 CellVerdict::false_alarm);
  cell.results[0].verdict = Verdict::violated;
  cell.results[0].findings = {literal_divergence()};
  cell.symptom =
      literal_outcome(SymptomKind::agree_but_wrong,
                      "ranks agree but are wrong from step 1 on: weight, ratio 0.25, cosine 0.98");
  cell.symptom.ratio = 0.25;
  cell.symptom.cosine = 0.98;
  cell.checks[0].result = Check::Result::false_alarm;
  cell.notes = {"rank 1: the last row of its journal was torn and left out"};
  return cell;
}

inline CellRecord literal_undecided() {
  CellRecord cell =
      literal_cell("loss-on-unwrapped-module", "hidden", Role::latent, CellVerdict::undecided);
  cell.cost->memory = 4096;
  cell.results[0].verdict = Verdict::undecided;
  cell.results[0].comparisons = 0;
  cell.results[0].reason = "not triggered: nothing was compared";
  cell.symptom = {.text = "undecided: not triggered: nothing was compared"};
  cell.checks[0].result = Check::Result::undecided;
  cell.checks[0].text = cell.results[0].reason;
  return cell;
}

inline CellRecord literal_not_applicable() {
  CellRecord cell =
      literal_cell("error-after-damage", "averaged", Role::wrong_fix, CellVerdict::not_applicable);
  cell.cell.axes = {{"tiles", "4"}, {"bucket_view", "on"}};
  cell.folder = folder_of(cell.cell);
  cell.expectation.not_applicable = "needs at least 3 ranks, a sum of two has no order";
  cell.symptom = {.kind = SymptomKind::not_applicable,
                  .text = "not applicable: " + cell.expectation.not_applicable};
  cell.processes = 0;
  cell.manifest.reset();
  cell.steps = {};
  cell.cost.reset();
  cell.exits.clear();
  cell.results.clear();
  cell.checks.clear();
  return cell;
}

/// A claim about the reference that clearly holds.
inline ClaimResult literal_margin(double margin) {
  ClaimResult result;
  result.claim = equal_reference(Kind::gradient, Phase::pre_step);
  result.verdict = Verdict::holds;
  result.comparisons = 10;
  result.margin = margin;
  result.tolerance = 3.6e-07;
  result.tolerance_from = "4 perturbed references";
  return result;
}

inline CellRecord literal_fixed(int repetition) {
  CellRecord cell = literal_cell("loss-on-unwrapped-module", "all-reduce-each", Role::fixed,
                                 CellVerdict::as_expected);
  cell.cell.repetition = repetition;
  cell.folder = folder_of(cell.cell);
  cell.results.push_back(literal_margin(0.15));
  cell.claims.push_back(cell.results.back().claim);
  cell.checks.push_back({"keeps " + sentence(cell.claims.back()), Check::Result::as_promised, "",
                         cell.claims.back()});
  return cell;
}

/// A repetition that differs from the others.
inline CellRecord literal_odd_one_out() {
  CellRecord cell = literal_fixed(3);
  cell.verdict = CellVerdict::false_alarm;
  cell.results[0].verdict = Verdict::violated;
  cell.results[0].findings = {literal_divergence()};
  cell.symptom = literal_outcome(SymptomKind::ranks_differ, "ranks differ from step 1 on: weight");
  cell.checks[0].result = Check::Result::false_alarm;
  return cell;
}

inline CellRecord literal_not_triggered() {
  CellRecord cell = literal_cell("loss-on-unwrapped-module", "one-micro-batch", Role::latent,
                                 CellVerdict::as_expected);
  cell.expectation.not_triggered = true;
  for (RankExit& end : cell.exits) end.line = 0;
  for (ClaimResult& result : cell.results) {
    result.verdict = Verdict::undecided;
    result.reason = "not triggered: no rank reached the branch point";
  }
  cell.symptom = {.text = "undecided: " + cell.results[0].reason};
  cell.checks = {{"is not triggered", Check::Result::found, "no rank reached the branch point"}};
  return cell;
}

/// A run with a cell of every verdict and a rank of every failed exit.
inline RunRecord literal_run() {
  RunRecord run;
  run.command = {"lockstep", "run", "--set", "tiles=4, \"quoted\""};
  run.environment = {"2026-11-20T18:52:46Z",
                     "node-1",
                     "0.1.0",
                     "2.11.0",
                     "g++ 12.2",
                     "lockstep-2",
                     {{"OMP_NUM_THREADS", "1"}, {"TORCH_DISTRIBUTED_DEBUG", "OFF"}}};
  CellRecord reference = literal_cell("loss-on-unwrapped-module", "reference", Role::reference,
                                      CellVerdict::as_expected);
  reference.reference_folder.clear();
  reference.processes = 5;
  reference.cost.reset();
  run.cells = {literal_buggy(),         literal_fixed(1),
               literal_fixed(2),        literal_odd_one_out(),
               literal_false_alarm(),   literal_undecided(),
               literal_not_triggered(), reference,
               literal_missed(),        literal_not_applicable()};
  run.tables = {published_gradients(), published_drift(), published_norms(), literal_distances()};
  run.tables[1].rows[4].entries[0].values[0] = kNaN;
  run.notes = {"13 of 512 choices were run: every pair of values is in one of them"};
  run.cells[1].exits[0].rows = 120;
  run.planned = counts_of(run);
  return run;
}

}  // namespace lockstep
