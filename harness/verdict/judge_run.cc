#include "harness/verdict/judge_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/judge.h"
#include "harness/judge/values/held_tensors.h"
#include "harness/judge/values/own_tensors.h"
#include "harness/judge/values/periodic_agreement.h"
#include "harness/judge/values/unshared_tensors.h"
#include "harness/record/process_identity.h"
#include "harness/verdict/broken_ties.h"
#include "harness/verdict/bystander_copies.h"
#include "harness/verdict/cause.h"
#include "harness/verdict/chart_fold.h"
#include "harness/verdict/cost.h"
#include "harness/verdict/coverage.h"
#include "harness/verdict/device_notes.h"
#include "harness/verdict/divided_apart.h"
#include "harness/verdict/evidence_of_run.h"
#include "harness/verdict/expectation.h"
#include "harness/verdict/frozen_parameters.h"
#include "harness/verdict/job_fault.h"
#include "harness/verdict/job_tables.h"
#include "harness/verdict/measured_tables.h"
#include "harness/verdict/non_finite.h"
#include "harness/verdict/not_run.h"
#include "harness/verdict/other_kinds.h"
#include "harness/verdict/parameter_order.h"
#include "harness/verdict/parts_clipped_apart.h"
#include "harness/verdict/parts_updated_apart.h"
#include "harness/verdict/reduction_fold.h"
#include "harness/verdict/repetition.h"
#include "harness/verdict/sampler_notes.h"
#include "harness/verdict/shared_samples.h"
#include "harness/verdict/state_buffers.h"
#include "harness/verdict/step_behind.h"
#include "harness/verdict/symptom.h"
#include "harness/verdict/untrained_parameters.h"
#include "harness/verdict/used_weights_fold.h"
#include "harness/verdict/written_apart.h"
#include "reports/base/plain_text.h"
#include "reports/record/differing_settings.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

std::string unmet_in_words(const TableComparison& comparison) {
  if (comparison.values == 0) return "the table has no values for this cell";
  if (comparison.unmet.empty()) return "";
  const Unmet& first = comparison.unmet.front();
  return fmt::format("{} of {} values are not met; first, in step {}: published {}, measured: {}",
                     comparison.unmet.size(), comparison.values, first.published.step,
                     first.published.printed, first.measured);
}

/// Compares the rows of a table about a cell with its measured values.
TableComparison compare_with_cell(PublishedTable table, const CellRecord& cell,
                                  const MeasuredValues& measured) {
  std::erase_if(table.values,
                [&](const PublishedValue& value) { return !is_about(value, cell.cell); });
  return compare(table, [&](const PublishedValue& value) { return measured.of(value); });
}

/// Whether a rank could not write its snapshots: one that raised still does.
bool was_ended(const std::vector<RankExit>& exits, int rank) {
  return std::any_of(exits.begin(), exits.end(), [&](const RankExit& end) {
    return end.rank == rank && end.kind != ExitKind::finished && end.kind != ExitKind::raised;
  });
}

std::vector<std::string> with(const std::string& note, std::vector<std::string> notes) {
  if (!note.empty()) notes.push_back(note);
  return notes;
}

/// Missing files of a cell.
std::vector<std::string> notes_of(const StepReader& evidence) {
  return with(evidence.non_finite_in_words(), evidence.notes());
}

/// "ranks agreed in step 300 and differ in step 400; the steps between were not observed". Empty:
/// the step before the first difference was observed, or there is no difference.
std::string interval_in_words(const StepReader& evidence, const std::vector<ClaimResult>& results) {
  const std::int64_t first = first_damage(results);
  const std::vector<std::int64_t>& steps = evidence.steps();
  const auto at = std::lower_bound(steps.begin(), steps.end(), first);
  if (first <= 1 || at == steps.end()) return "";
  if (at == steps.begin()) {
    return fmt::format("step {} is the first observed one: ranks may have differed before", first);
  }
  // Ranks agreed in steps whose rows were removed.
  const std::vector<std::int64_t>& thinned = evidence.thinned_steps();
  const auto removed = std::lower_bound(thinned.begin(), thinned.end(), first);
  const std::int64_t before =
      std::max(*std::prev(at), removed == thinned.begin() ? 0 : *std::prev(removed));
  if (before == first - 1) return "";
  return fmt::format(
      "ranks agreed in step {} and differ in step {}; the steps between were not observed", before,
      first);
}

/// Of ranks that went along with others in torch's Join; empty: there are none.
std::string joined_in_words(const std::vector<JoinedRanks>& joined) {
  if (joined.empty()) return "";
  const JoinedRanks& first = joined.front();
  const std::string more =
      joined.size() > 1 ? fmt::format(", and {} more", counted(joined.size() - 1, "time")) : "";
  const std::string compared =
      first.until > 0 ? fmt::format("compared with the others again after step {}", first.until)
                      : "no longer compared with the others";
  return fmt::format(
      "{} had joined after step {} (torch's Join: no more data){}: {}; how the others reduce "
      "gradients meanwhile is not judged",
      ranks_in_words(first.ranks), first.after, more, compared);
}

/// A job stores snapshots of few steps, so none is missing. The details of exits say why a rank was
/// no longer observed; the finding about a signal has it.
std::vector<std::string> notes_of_job(const CellEvidence& judged,
                                      const std::vector<ClaimResult>& results,
                                      const std::optional<AgreementAgain>& again,
                                      const std::vector<RankExit>& exits) {
  const StepReader& evidence = *judged.evidence;
  std::vector<std::string> notes = evidence.notes();
  notes = with(first_non_finite_in_words(evidence, results), std::move(notes));
  notes = with(interval_in_words(evidence, results), std::move(notes));
  notes = with(joined_in_words(judged.joined), std::move(notes));
  notes = with(again ? again->in_words() : "", std::move(notes));
  for (std::string& sentence : other_kinds_in_words(evidence)) notes.push_back(std::move(sentence));
  for (const RankExit& end : exits) {
    if (end.detail.empty() || end.kind == ExitKind::signalled) continue;
    notes.push_back(fmt::format("rank {}: {}", end.rank, end.detail));
  }
  return notes;
}

std::vector<std::string> notes_of(const StepReader& evidence, const std::vector<RankExit>& exits) {
  std::vector<std::string> notes = notes_of(evidence);
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    const std::string missing = evidence.missing_snapshots(rank, was_ended(exits, rank));
    if (!missing.empty()) notes.push_back(missing);
  }
  return notes;
}

/// Missing files of the cell and its reference, and ranks that never reached the branch point
/// although others did.
std::vector<std::string> notes_of(const CellEvidence& judged,
                                  const std::vector<RankExit>& reference_exits,
                                  bool has_still_copies) {
  std::vector<std::string> notes = notes_of(*judged.evidence, judged.exits);
  if (judged.reference) {
    for (const std::string& note : notes_of(*judged.reference, reference_exits)) {
      notes.push_back("reference: " + note);
    }
  }
  if (has_still_copies) {
    notes.emplace_back(
        "the perturbed references equal the reference bit for bit, so no input was perturbed; "
        "tolerances cover only the rounding of a sum");
  }
  if (!is_triggered(judged.exits)) return notes;
  for (const RankExit& end : judged.exits) {
    if (end.kind != ExitKind::finished || end.line.value_or(1) != 0) continue;
    notes.push_back(fmt::format("rank {} never reached the branch point", end.rank));
  }
  return notes;
}

/// Clears the results of an earlier judgement.
void begin_judging(Execution& execution) {
  execution.not_run = why_not_run(execution.exits);
  execution.results.clear();
  execution.steps = {};
  execution.notes.clear();
  execution.mismatch.reset();
  execution.cost.reset();
  execution.charts.reset();
}

ObservedSteps observed_steps(const StepReader& evidence) {
  const std::vector<std::int64_t>& steps = evidence.steps();
  if (steps.empty()) return {};
  const auto thinned = static_cast<std::int64_t>(evidence.thinned_steps().size());
  return {static_cast<std::int64_t>(steps.size()) + thinned, steps.front(), steps.back(), thinned};
}

/// Judges an execution. `judged` has everything but claims and exits; `others` see its steps, too.
/// Returns the rest of the judgement.
Judgement judge_execution(Execution& execution, CellEvidence& judged, const StepFolds& others) {
  judged.claims =
      judged.is_job ? without_incomparable(execution.claims, *judged.evidence) : execution.claims;
  judged.exits = execution.exits;
  const CellFacts facts = facts_of(judged);
  execution.mismatch = facts.analysis.missed;
  Judgement judgement = judge(judged, facts, others);
  execution.results = std::move(judgement.results);
  execution.symptom = symptom_of(facts, execution.results, judgement.wrong_values);
  execution.steps = observed_steps(*judged.evidence);
  return judgement;
}

/// "rank-1.csv was changed: ..., and 2 more".
std::string first_of(const std::vector<std::string>& faults) {
  return faults.size() == 1 ? faults[0]
                            : fmt::format("{}, and {} more", faults[0], faults.size() - 1);
}

/// The series of an execution, if they are wanted; of a reference there are none, because its
/// processes are no ranks.
std::optional<ChartFold> chart_fold_for(const Execution& execution, const CellEvidence& judged,
                                        const Reading& reading, Role role = Role::buggy) {
  if (!reading.fills_charts || role == Role::reference) return std::nullopt;
  return std::optional<ChartFold>(std::in_place, judged, execution.claims);
}

void judge_cell(CellRecord& cell, const fs::path& folder, EvidenceOfRun& evidence,
                MeasuredTables& tables, const Reading& reading) {
  begin_judging(cell);
  if (!was_run(cell)) {
    cell.symptom = symptom_of_unrun(cell.expectation.not_applicable, cell.not_run);
    check_expectation(cell);
    return;
  }
  CellEvidence judged;
  judged.world_size = cell.cell.world_size;
  judged.steps = cell.cell.steps;
  judged.evidence = evidence.of(cell.folder);
  judged.reference = evidence.of(cell.reference_folder);
  judged.reference_exit = evidence.first_exit_of(cell.reference_folder);
  std::vector<PublishedTable> published;
  MeasuredValues measured(cell);
  for (const std::string& id : cell.expectation.meets) {
    published.push_back(read_published_table(published_table_file(id)));
    measured.add(published.back());
  }
  MemoryPeak memory(*judged.evidence);
  StepFolds others = tables.columns_of(cell);
  for (StepFold& fold : measured.folds()) others.push_back(fold);
  if (cell.cell.role != Role::reference) others.push_back(memory);
  auto charts = chart_fold_for(cell, judged, reading, cell.cell.role);
  if (charts) others.push_back(*charts);
  const bool has_still_copies = judge_execution(cell, judged, others).has_still_copies;
  if (charts) cell.charts = charts->take(cell.mismatch);
  if (cell.cell.role != Role::reference) {
    cell.cost = cost_of(folder / cell.folder, cell.exits, cell.cell.steps);
    if (cell.cost) cell.cost->memory = memory.bytes();
  }
  cell.notes = notes_of(judged, evidence.exits_of(cell.reference_folder), has_still_copies);
  check_expectation(cell);
  for (const PublishedTable& table : published) {
    add_check(cell, "meets " + table.id, unmet_in_words(compare_with_cell(table, cell, measured)));
  }
  const std::string index_fault = evidence.index_fault_of(cell.folder);
  if (!index_fault.empty()) add_check(cell, "has step indices that fit its journals", index_fault);
  const auto faults = cell.manifest
                          ? evidence.faults_of(cell, execution_identity(cell.cell))
                          : std::vector<std::string>{"no manifest of its files was written"};
  if (!faults.empty()) add_check(cell, "has the files that its ranks wrote", first_of(faults));
  evidence.forget_steps_but_of(cell.reference_folder);
}

/// Whether the first observed step says nothing about the initialisation: ranks that agree now and
/// then may be apart in it.
bool begins_apart(const JobRecord& job, const StepReader& evidence) {
  return job.agree_every > 0 && !evidence.steps().empty() && evidence.steps().front() > 1;
}

std::string straggler_in_words(const JobRecord& job) {
  if (!job.straggler) return "";
  const Straggler& late = *job.straggler;
  return fmt::format(
      "the others waited for rank {}: {:.2g} of {:.2g} s, in {} of {} steps (calls of "
      "collectives, by the clock of their machine)",
      late.rank, late.waited_s, late.duration_s, late.late, late.steps);
}

std::string metric_in_words(const WrongMetric& wrong) {
  const std::string moment =
      wrong.step > 0 ? fmt::format("after step {}", wrong.step) : "before the first step";
  return fmt::format(
      "the trainer reduced the metric {} to {:.6g} {}, and the {} of what the ranks have is {:.6g}",
      wrong.name, wrong.reported, moment, wrong.operation, wrong.expected);
}

/// Of an error with a traceback, its type and the last line.
std::string in_a_line(const std::string& error) {
  std::vector<std::string> lines = split(error, '\n');
  std::erase_if(lines,
                [](const std::string& line) { return line.find_first_not_of(' ') > line.size(); });
  if (lines.size() < 2) return error;
  return fmt::format("{}: ... {}", error.substr(0, error.find(':')), lines.back());
}

/// Ray's workers, for example, keep an error for the process that started them.
std::string error_of_launcher_in_words(const JobRecord& job) {
  if (job.command_error.empty() || job.exits.empty()) return "";
  return fmt::format("a process of the command that is no rank ended by this error: {}",
                     in_a_line(job.command_error));
}

/// About ranks that train nothing, or late, or other samples than they should.
void add_notes_of_ranks(const BystanderCopies& copies, JobRecord& job) {
  for (std::string& note : sampler_notes(job)) job.notes.push_back(std::move(note));
  for (const WrongMetric& wrong : job.wrong_metrics) job.notes.push_back(metric_in_words(wrong));
  for (std::string& note : copies.notes()) job.notes.push_back(std::move(note));
  job.notes = with(straggler_in_words(job), std::move(job.notes));
}

/// The last steps of tensors of a kind that all ranks stopped to observe, by name.
std::map<std::string, std::int64_t> ended_of(Kind kind, const Judgement& judgement) {
  std::map<std::string, std::int64_t> ended;
  for (const auto& [claim, steps] : judgement.ended) {
    if (claim.kind == kind) ended.insert(steps.begin(), steps.end());
  }
  return ended;
}

std::string hint_at_machines(const JobRecord& job) {
  return fmt::format(
      "`lockstep report DIR DIR...` with the folders of all machines judges the whole job: {} ran "
      "elsewhere",
      ranks_in_words(job.elsewhere));
}

/// Whether no other claim of the job tells a fault.
bool is_without_fault(const JobRecord& job) {
  return job.symptom.kind == SymptomKind::right || job.symptom.kind == SymptomKind::undecided;
}

/// Adds the result of another claim. `symptom`: that of the job, if this is its first fault.
void add_result(ClaimResult result, Symptom symptom, JobRecord& job) {
  if (is_without_fault(job) && result.verdict == Verdict::violated) {
    job.symptom = std::move(symptom);
  }
  job.results.push_back(std::move(result));
}

void add_fault(std::optional<JobFault> fault, JobRecord& job) {
  if (fault) add_result(std::move(fault->violated), std::move(fault->symptom), job);
}

/// After its coverage and its claims are known.
void add_frozen(JobRecord& job) {
  for (std::string& note : frozen_notes(job)) job.notes.push_back(std::move(note));
}

/// After its coverage is known.
void add_devices(JobRecord& job) {
  const bool are_copies = job.coverage.compared == job.coverage.parameters;
  for (std::string& note : device_notes(job.devices, are_copies)) {
    job.notes.push_back(std::move(note));
  }
}

/// After its other claims, since they say how the job divides its model.
void add_shared_samples(const SharedSamples& shared, JobRecord& job) {
  if (!shared.fault) {
    if (!shared.text.empty()) job.notes.push_back(shared.text);
    return;
  }
  add_result(violated_by(*shared.fault), shared.symptom, job);
}

/// After its coverage is known. A forward pass that takes parameters by their places, such as that
/// of a sequence, is right in any order, and parameters that agree by their names are.
void add_parameter_order(JobRecord& job) {
  const bool may_differ = job.coverage.unshared > 0 || job.coverage.compared == 0;
  const std::string order = other_order_in_words(job);
  if (!may_differ || order.empty()) return;
  ClaimResult result;
  result.claim = have_one_order();
  result.reason = order + ": right only if the forward pass takes them so, too";
  job.results.insert(job.results.begin(), std::move(result));
}

/// After its other claims, since they say whether ranks differ.
void add_reductions(ReductionFold& reductions, const PartsClippedApart& parts, JobRecord& job) {
  auto result = reductions.result(job.results);
  job.notes = with(reductions.sums_in_words(), std::move(job.notes));
  job.notes = with(reductions.judged_in_words(), std::move(job.notes));
  if (auto clipped = parts.fault()) {  // of the same claim, and the cause of what sums show
    ClaimResult& violated = clipped->violated;
    if (result) {
      violated.comparisons += result->comparisons;
      std::ranges::move(result->findings, std::back_inserter(violated.findings));
    }
    return add_fault(std::move(clipped), job);
  }
  if (!result) return;
  Symptom symptom;
  if (!result->findings.empty()) symptom = symptom_of_reduction(result->findings[0]);
  add_result(std::move(*result), std::move(symptom), job);
}

void add_used_weights(const UsedWeightsFold& weights, JobRecord& job) {
  auto judged = weights.judged();
  if (!judged) return;
  job.notes.push_back(std::move(judged->note));
  add_result(std::move(judged->result), std::move(judged->symptom), job);
}

void add_untrained(JobRecord& job) {
  job.notes = with(untrained_in_words(job), std::move(job.notes));
  add_fault(untrained_parameters(job), job);
}

/// Without claims and exits.
CellEvidence evidence_of_job(const JobRecord& job, EvidenceOfRun& evidence) {
  CellEvidence judged;
  judged.world_size = job.world_size;
  judged.steps = job.planned_steps;
  judged.is_job = true;
  judged.evidence = evidence.of(job);
  judged.agree_every = job.agree_every;
  judged.settings_differ = !differing_hyperparameters_of(job).empty();
  judged.joined = job.joined;
  if (training_ranks(job) < job.world_size) judged.bystanders = job.bystanders;
  judged.traffic = job.traffic;
  judged.traffic_in_steps = job.traffic_in_steps;
  if (!begins_apart(job, *judged.evidence)) judged.unshared = unshared_tensors(judged);
  judged.own = own_tensors(*judged.evidence);
  return judged;
}

/// A job has no expectation, so its findings are the result.
void judge_job(JobRecord& job, EvidenceOfRun& evidence, const Reading& reading) {
  begin_judging(job);
  job.faults.clear();
  job.tables.clear();
  if (!was_run(job)) {
    job.symptom = symptom_of_unrun("", job.not_run);
    return;
  }
  CellEvidence judged = evidence_of_job(job, evidence);
  JobTables tables(judged);
  ReductionFold reductions(judged);
  PartsClippedApart parts_clipped(judged);
  StepFolds others = tables.columns();
  others.emplace_back(reductions);
  others.emplace_back(parts_clipped);
  UsedWeightsFold used_weights(judged);
  others.emplace_back(used_weights);
  BystanderCopies copies(job);
  others.emplace_back(copies);
  auto charts = chart_fold_for(job, judged, reading);
  if (charts) others.push_back(*charts);
  const Judgement judgement = judge_execution(job, judged, others);
  if (charts) job.charts = charts->take(job.mismatch);
  job.tables = tables.tables();
  job.coverage = coverage_of(
      judged, {ended_of(Kind::gradient, judgement), ended_of(Kind::parameter, judgement)});
  const std::optional<AgreementAgain> again = agreement_again(judged, job.results);
  job.notes = notes_of_job(judged, job.results, again, job.exits);
  add_notes_of_ranks(copies, job);
  job.notes = with(error_of_launcher_in_words(job), std::move(job.notes));
  add_parameter_order(job);
  add_reductions(reductions, parts_clipped, job);
  add_used_weights(used_weights, job);
  add_fault(parts_updated_apart(job, *judged.evidence), job);
  add_untrained(job);
  add_fault(broken_ties(job), job);
  add_fault(buffers_apart(job, judged), job);
  add_devices(job);
  SharedSamples samples = shared_samples(job, *judged.evidence, job.coverage);
  PartsOfRanks parts = parts_of_ranks(*judged.evidence);
  if (samples.groups.empty()) {  // else they tell it themselves
    job.notes = with(reductions.alike_in_words(), std::move(job.notes));
  }
  add_shared_samples(samples, job);
  job.notes = with(samples_of_parts_in_words(samples, parts), std::move(job.notes));
  add_frozen(job);
  job.notes = with(divided_apart_in_words(job), std::move(job.notes));
  find_cause(job,
             {step_behind(*judged.evidence, job.results), written_apart(*judged.evidence, job),
              again ? again->period : 0, std::move(parts), std::move(samples), judged.unshared});
  if (!job.elsewhere.empty()) job.notes.push_back(hint_at_machines(job));
  job.faults = evidence.faults_of(job);
  const bool is_sealed =
      job.parts.empty() ? job.manifest.has_value()
                        : std::all_of(job.parts.begin(), job.parts.end(), [](const JobPart& part) {
                            return part.manifest.has_value();
                          });
  if (!job.unsealed.empty()) {
    job.notes.push_back("its files are in no manifest: " + job.unsealed);
  } else if (!is_sealed) {
    job.faults.emplace_back("no manifest of its files was written when it ended");
  }
  const std::string index_fault = evidence.index_fault_of(job.folder);
  if (!index_fault.empty()) job.faults.push_back(index_fault);
  evidence.forget_steps_but_of("");
}

/// Compares each repeated cell with its first run.
void check_repetitions(RunRecord& run, EvidenceOfRun& evidence) {
  for (CellRecord& cell : run.cells) {
    if (cell.cell.repetition == 1) continue;
    Cell once = cell.cell;
    once.repetition = 1;
    const auto first = std::find_if(run.cells.begin(), run.cells.end(),
                                    [&](const CellRecord& other) { return other.cell == once; });
    if (first == run.cells.end()) continue;
    check_repetition(cell, evidence.of(cell.folder), *first, evidence.of(first->folder));
    evidence.forget_steps_but_of(first->folder);
  }
}

void judge_cells(RunRecord& run, const fs::path& folder, EvidenceOfRun& evidence,
                 const Reading& reading) {
  MeasuredTables tables(run);
  for (CellRecord& cell : run.cells) judge_cell(cell, folder, evidence, tables, reading);
  for_each_attempt(run.jobs, [&](JobRecord& job) { judge_job(job, evidence, reading); });
  check_repetitions(run, evidence);
  tables.write_to(run);
}

}  // namespace

void judge_run(RunRecord& run, const fs::path& folder, const Reading& reading) {
  EvidenceOfRun evidence(run, folder, reading);
  without_stale_indices(evidence, [&] { judge_cells(run, folder, evidence, reading); });
}

namespace {

/// The first cell that a value is about, if it was run; otherwise null.
const CellRecord* cell_of(const PublishedValue& value, const RunRecord& run) {
  const auto cell = std::find_if(run.cells.begin(), run.cells.end(), [&](const CellRecord& c) {
    return is_about(value, c.cell) && was_run(c);
  });
  return cell == run.cells.end() ? nullptr : &*cell;
}

}  // namespace

TableComparison compare_with_run(const PublishedTable& table, const RunRecord& run,
                                 const fs::path& folder) {
  EvidenceOfRun evidence(run, folder);
  return without_stale_indices(evidence, [&] {
    std::map<const CellRecord*, MeasuredValues> measured;
    for (const PublishedValue& value : table.values) {
      const CellRecord* const cell = cell_of(value, run);
      if (!cell || measured.contains(cell)) continue;
      MeasuredValues& values = measured.emplace(cell, *cell).first->second;
      values.add(table);
      fold_steps(*evidence.of(cell->folder), values.folds());
    }
    return compare(table, [&](const PublishedValue& value) {
      const CellRecord* const cell = cell_of(value, run);
      return cell ? measured.at(cell).of(value) : std::nullopt;
    });
  });
}

}  // namespace lockstep
