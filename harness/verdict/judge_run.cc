#include "harness/verdict/judge_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/read_cell.h"
#include "harness/judge/judge.h"
#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/verdict/cost.h"
#include "harness/verdict/expectation.h"
#include "harness/verdict/not_run.h"
#include "harness/verdict/repetition.h"
#include "harness/verdict/symptom.h"
#include "harness/verdict/table.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

bool was_run(const Execution& execution) {
  return execution.processes > 0 && !why_not_run(execution.exits);
}

/// The evidence of a run's cells and jobs, each read once.
class EvidenceOfRun {
 public:
  EvidenceOfRun(const RunRecord& run, fs::path folder, Reading reading = {})
      : run_(run), folder_(std::move(folder)), reading_(std::move(reading)) {}

  /// Of the cell in `cell_folder`; null when there is no such cell or it was not run.
  const StepReader* of(const std::string& cell_folder) {
    const CellRecord* const cell = cell_in(cell_folder);
    // What is counted says that the record is of a version whose files say who wrote them.
    return cell ? open(*cell, writers_of(*cell, run_.planned.has_value())) : nullptr;
  }

  /// Of a job that was run.
  const StepReader* of(const JobRecord& job) { return open(job, writers_of(job)); }

  /// What of the files is not as the ranks left it, in a sentence; empty where all is.
  /// `identity`: of the execution.
  std::vector<std::string> faults_of(const Execution& execution,
                                     const std::string& identity) const {
    std::vector<std::string> faults;
    if (execution.manifest) {
      faults = manifest_faults(folder_ / execution.folder, execution.processes, identity,
                               *execution.manifest, reading_.meter);
    }
    return faults;
  }

  /// Lets go of the steps that were read, except those of the cell in `cell_folder`, which the next
  /// cells are compared with.
  void forget_steps_but_of(const std::string& cell_folder) const {
    for (const auto& [folder, evidence] : read_) {
      if (evidence && folder != cell_folder) evidence->forget_steps();
    }
  }

  /// Reads all rows of the cell or job that a journal is of from now on.
  void distrust(const StaleIndex& stale) {
    const auto read = std::find_if(read_.begin(), read_.end(), [&](const auto& entry) {
      return folder_ / entry.first == stale.journal().parent_path();
    });
    if (read == read_.end()) throw internal_error(stale.what());
    index_faults_[read->first] = stale.what();
    read_.erase(read);
  }

  /// Why an index of that cell was ignored; empty where none was.
  std::string index_fault_of(const std::string& cell_folder) const {
    const auto found = index_faults_.find(cell_folder);
    return found == index_faults_.end() ? "" : found->second;
  }

  /// How the ranks of that cell ended; empty where there is no such cell or it was not run.
  std::vector<RankExit> exits_of(const std::string& cell_folder) const {
    const CellRecord* const cell = cell_in(cell_folder);
    return cell ? cell->exits : std::vector<RankExit>();
  }

  /// How rank 0 of that cell ended.
  std::optional<RankExit> first_exit_of(const std::string& cell_folder) const {
    const CellRecord* const cell = cell_in(cell_folder);
    return cell ? std::optional(cell->exits.front()) : std::nullopt;
  }

  /// Whether a file that was read does not say who wrote it.
  bool has_unsigned() const {
    return std::any_of(read_.begin(), read_.end(),
                       [](const auto& entry) { return !entry.second->is_signed(); });
  }

  /// Whether a cell was run whose files nobody listed.
  bool has_unlisted() const {
    const auto is_unlisted = [](const Execution& one) { return was_run(one) && !one.manifest; };
    return std::any_of(run_.cells.begin(), run_.cells.end(), is_unlisted);
  }

  /// Whether digests are by a definition that this program does not compute.
  bool has_other_digests() const { return run_.environment.digest != kDigestName; }

 private:
  const StepReader* open(const Execution& execution, Writers writers) {
    auto& evidence = read_[execution.folder];
    if (evidence) return evidence.get();
    Reading reading = reading_;
    if (index_faults_.contains(execution.folder)) reading.index = IndexUse::ignored;
    evidence = open_execution(folder_, execution, std::move(writers), reading);
    require_digest_of_run(*evidence, execution);
    for (const std::string& fault : evidence->index_faults()) {
      index_faults_[execution.folder] = fault;
    }
    return evidence.get();
  }

  /// Cells are compared by their digests, too: with their references and their repetitions.
  void require_digest_of_run(const StepReader& evidence, const Execution& execution) const {
    if (evidence.digest().empty() || evidence.digest() == run_.environment.digest) return;
    throw malformed(
        (folder_ / execution.folder).string(), 0, 0,
        fmt::format("journals with digests by {}, as the record says", run_.environment.digest),
        evidence.digest());
  }

  const CellRecord* cell_in(const std::string& folder) const {
    const auto cell = std::find_if(run_.cells.begin(), run_.cells.end(), [&](const CellRecord& c) {
      return c.folder == folder && was_run(c);
    });
    return cell == run_.cells.end() ? nullptr : &*cell;
  }

  const RunRecord& run_;
  fs::path folder_;
  Reading reading_;
  std::map<std::string, std::unique_ptr<StepReader>> read_;
  std::map<std::string, std::string> index_faults_;  ///< by the cell's folder
};

/// The tables of a run, which its cells fill while they are judged.
class MeasuredTables {
 public:
  explicit MeasuredTables(const RunRecord& run) : run_(run) {
    for (const Table& table : run.tables) {
      auto& columns = columns_.emplace_back(table.spec.groups.size());
      for (std::size_t group = 0; group < columns.size(); ++group) {
        const CellRecord* const cell = cell_for(table, table.spec.groups[group].variant);
        if (cell) filled_by_[cell].emplace_back(columns_.size() - 1, group);
      }
    }
  }

  /// The columns that the cell fills, which was run.
  StepFolds columns_of(const CellRecord& cell) {
    StepFolds columns;
    const auto filled = filled_by_.find(&cell);
    if (filled == filled_by_.end()) return columns;
    for (const auto& [table, group] : filled->second) {
      columns.push_back(columns_[table][group].emplace(run_.tables[table].spec, cell.processes));
    }
    return columns;
  }

  void write_to(RunRecord& run) const {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      std::vector<const TableColumn*> groups;
      for (const auto& column : columns_[i]) groups.push_back(column ? &*column : nullptr);
      run.tables[i].rows = table_of(run.tables[i].spec, groups).rows;
    }
  }

 private:
  /// The first run of a variant under the conditions of a table; null where there is none.
  const CellRecord* cell_for(const Table& table, const std::string& variant) const {
    const auto found = std::find_if(run_.cells.begin(), run_.cells.end(), [&](const auto& record) {
      const Cell& cell = record.cell;
      return cell.scenario == table.scenario && cell.variant == variant &&
             cell.world_size == table.world_size && cell.axes == table.axes && cell.repetition == 1;
    });
    return found == run_.cells.end() ? nullptr : &*found;
  }

  const RunRecord& run_;
  std::vector<std::vector<std::optional<TableColumn>>> columns_;  ///< by table and group
  /// Table and group of the columns that a cell fills.
  std::map<const CellRecord*, std::vector<std::pair<std::size_t, std::size_t>>> filled_by_;
};

bool is_about(const PublishedValue& value, const Cell& cell) {
  return cell.scenario == value.scenario && cell.variant == value.variant &&
         cell.world_size == value.world_size;
}

/// What has to be measured for a published quantity; `synced` comes with an element, or, of all
/// tensors together, with a norm.
Quantity quantity_of(const PublishedValue& value) {
  switch (value.quantity) {
    case PublishedQuantity::drift:
      return Quantity::drift;
    case PublishedQuantity::norm:
      return Quantity::norm;
    case PublishedQuantity::synced:
    case PublishedQuantity::element:
      break;
  }
  return value.tensor == "*" ? Quantity::norm : Quantity::element;
}

/// What has to be measured for a published value; nothing where it names what nobody measures.
std::optional<TableSpec> spec_of(const PublishedValue& value) {
  const auto kind = parse<Kind>(value.kind);
  const auto phase = parse<Phase>(value.phase);
  if (!kind || !phase) return std::nullopt;
  TableSpec spec;
  spec.quantity = quantity_of(value);
  spec.kind = *kind;
  spec.phase = *phase;
  if (value.tensor != "*") spec.tensor = value.tensor;
  spec.element = value.element;
  spec.steps = {value.step - value.step_base + 1};
  return spec;
}

/// What a cell that was run held of what published tables say of it.
class MeasuredValues {
 public:
  explicit MeasuredValues(const CellRecord& cell) : cell_(cell) {}

  /// Measures what `table` says of the cell, too.
  void add(const PublishedTable& table) {
    for (const PublishedValue& value : table.values) {
      const auto spec = is_about(value, cell_.cell) ? spec_of(value) : std::nullopt;
      if (spec && !find(*spec)) columns_.push_back({*spec, TableColumn(*spec, cell_.processes)});
    }
  }

  /// Valid until the next `add`.
  StepFolds folds() {
    StepFolds folds;
    for (auto& [spec, column] : columns_) folds.push_back(column);
    return folds;
  }

  /// Requires: of a table that was added, and about the cell.
  std::optional<Measured> of(const PublishedValue& value) const {
    const auto spec = spec_of(value);
    const TableColumn* const column = spec ? find(*spec) : nullptr;
    if (!column || column->steps().empty()) return std::nullopt;
    const Table::Entry entry = column->at(spec->steps.front());
    if (!entry.is_measured()) return std::nullopt;
    return Measured{entry.values, entry.synced};
  }

 private:
  const TableColumn* find(const TableSpec& spec) const {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const auto& entry) { return entry.first == spec; });
    return found == columns_.end() ? nullptr : &found->second;
  }

  const CellRecord& cell_;
  std::vector<std::pair<TableSpec, TableColumn>> columns_;
};

std::string unmet_in_words(const TableComparison& comparison) {
  if (comparison.values == 0) return "the table says nothing about this cell";
  if (comparison.unmet.empty()) return "";
  const Unmet& first = comparison.unmet.front();
  return fmt::format("{} of {} values are not met; first, in step {}: published {}, measured: {}",
                     comparison.unmet.size(), comparison.values, first.published.step,
                     first.published.printed, first.measured);
}

/// Holds the rows of a table that are about a cell against it.
TableComparison compare_with_cell(PublishedTable table, const CellRecord& cell,
                                  const MeasuredValues& measured) {
  std::erase_if(table.values,
                [&](const PublishedValue& value) { return !is_about(value, cell.cell); });
  return compare(table, [&](const PublishedValue& value) { return measured.of(value); });
}

/// Whether a rank could not write what it had kept: one that raised still does.
bool was_ended(const std::vector<RankExit>& exits, int rank) {
  return std::any_of(exits.begin(), exits.end(), [&](const RankExit& end) {
    return end.rank == rank && end.kind != ExitKind::finished && end.kind != ExitKind::raised;
  });
}

/// What is missing of a cell's files.
std::vector<std::string> notes_of(const StepReader& evidence, const std::vector<RankExit>& exits) {
  std::vector<std::string> notes = evidence.notes();
  const std::string non_finite = evidence.non_finite_in_words();
  if (!non_finite.empty()) notes.push_back(non_finite);
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    const std::string missing = evidence.missing_snapshots(rank, was_ended(exits, rank));
    if (!missing.empty()) notes.push_back(missing);
  }
  return notes;
}

/// What is missing of the cell's files and its reference's, and which ranks never came to where the
/// variant parts although others did.
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
    notes.push_back(
        "the perturbed references have the reference's very bits: no input was perturbed, and "
        "tolerances allow for the roundings of a sum alone");
  }
  if (!is_triggered(judged.exits)) return notes;
  for (const RankExit& end : judged.exits) {
    if (end.kind != ExitKind::finished || end.line.value_or(1) != 0) continue;
    notes.push_back(
        fmt::format("rank {} never reached the place where the variant parts", end.rank));
  }
  return notes;
}

/// Clears what an earlier judgement left.
void begin_judging(Execution& execution) {
  execution.not_run = why_not_run(execution.exits);
  execution.results.clear();
  execution.steps = {};
  execution.notes.clear();
  execution.mismatch.reset();
  execution.cost.reset();
}

ObservedSteps observed_steps(const StepReader& evidence) {
  const std::vector<std::int64_t>& steps = evidence.steps();
  if (steps.empty()) return {};
  return {static_cast<std::int64_t>(steps.size()), steps.front(), steps.back()};
}

/// What the judge finds of an execution, whose `judged` has everything but claims and exits;
/// `others` see its steps, too.
/// Returns whether the perturbed references never moved.
bool judge_execution(Execution& execution, CellEvidence& judged, const StepFolds& others) {
  judged.claims = execution.claims;
  judged.exits = execution.exits;
  const CellFacts facts = facts_of(judged);
  execution.mismatch = facts.analysis.missed;
  Judgement judgement = judge(judged, facts, others);
  execution.results = std::move(judgement.results);
  execution.symptom = symptom_of(facts, execution.results, judgement.wrong_values);
  execution.steps = observed_steps(*judged.evidence);
  return judgement.has_still_copies;
}

/// "rank-1.csv was changed: ..., and 2 more".
std::string first_of(const std::vector<std::string>& faults) {
  return faults.size() == 1 ? faults[0]
                            : fmt::format("{}, and {} more", faults[0], faults.size() - 1);
}

void judge_cell(CellRecord& cell, const fs::path& folder, EvidenceOfRun& evidence,
                MeasuredTables& tables) {
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
  const bool has_still_copies = judge_execution(cell, judged, others);
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
  const auto faults = evidence.faults_of(cell, execution_identity(cell.cell));
  if (!faults.empty()) add_check(cell, "has the files that its ranks left", first_of(faults));
  evidence.forget_steps_but_of(cell.reference_folder);
}

/// Nothing was expected of a job: what is found stands for itself.
void judge_job(JobRecord& job, EvidenceOfRun& evidence) {
  begin_judging(job);
  job.faults.clear();
  if (!was_run(job)) {
    job.symptom = symptom_of_unrun("", job.not_run);
    return;
  }
  CellEvidence judged;
  judged.world_size = job.world_size;
  judged.steps = job.planned_steps;
  judged.is_job = true;
  judged.evidence = evidence.of(job);
  judge_execution(job, judged, {});
  job.notes = notes_of(*judged.evidence, job.exits);
  job.faults = evidence.faults_of(job, execution_identity(job));
  if (!job.manifest) job.faults.push_back("no list of its files was made when it ended");
  const std::string index_fault = evidence.index_fault_of(job.folder);
  if (!index_fault.empty()) job.faults.push_back(index_fault);
  evidence.forget_steps_but_of("");
}

/// Says `note` once where it holds.
void note_where(bool holds, const std::string& note, RunRecord& run) {
  std::erase(run.notes, note);
  if (holds) run.notes.push_back(note);
}

/// Says what cannot be seen in the files of an older version.
void note_age(RunRecord& run, const EvidenceOfRun& evidence) {
  note_where(evidence.has_unsigned(),
             "files of ranks do not say who wrote them, as those before record version 1.4: an "
             "exchange of ranks or of cells would not be seen",
             run);
  note_where(evidence.has_unlisted(),
             "files of ranks are in no manifest, as those before record version 2.0: a change that "
             "leaves them well-formed would not be seen",
             run);
  note_where(evidence.has_other_digests(),
             fmt::format("journals have digests by {}, which this program does not compute: kept "
                         "values were compared with the journals by their norms alone",
                         run.environment.digest),
             run);
}

/// Holds each cell that was run again against its first run.
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

void judge_cells(RunRecord& run, const fs::path& folder, EvidenceOfRun& evidence) {
  MeasuredTables tables(run);
  for (CellRecord& cell : run.cells) judge_cell(cell, folder, evidence, tables);
  for (JobRecord& job : run.jobs) judge_job(job, evidence);
  check_repetitions(run, evidence);
  tables.write_to(run);
  note_age(run, evidence);
}

/// Does `work`, and again where an index turned out not to be of its rows, without it.
template <class Work>
auto without_stale_indices(EvidenceOfRun& evidence, const Work& work) {
  for (;;) {
    try {
      return work();
    } catch (const StaleIndex& stale) {
      evidence.distrust(stale);
    }
  }
}

}  // namespace

void judge_run(RunRecord& run, const fs::path& folder, const Reading& reading) {
  EvidenceOfRun evidence(run, folder, reading);
  without_stale_indices(evidence, [&] { judge_cells(run, folder, evidence); });
}

namespace {

/// The first cell that a value is about, where it was run; else null.
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
