#include "harness/validate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/diff/diff_runs.h"
#include "harness/launch/interruption.h"
#include "harness/validate/changed_lines.h"
#include "harness/validate/fixed_code.h"
#include "harness/validate/setting_law.h"
#include "harness/validate/validated_jobs.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Ends the comparison of a cell.
struct Interrupted {};

/// A job of a cell and its run.
struct CellJob {
  JobWish wish;
  const RanJob* job = nullptr;  ///< null: it has not run
};

/// The jobs of a cell.
struct CellJobs {
  CellJob reference, before, after;
};

/// The step in which a closer look may tell more: that of the first difference, else the first one
/// that is not decided. 0: there is none.
std::int64_t step_to_look_at(const ComparedPair& pair) {
  if (is_void(pair)) return 0;
  if (const StepDifference* const step = first_different(pair)) return step->step;
  const StepDifference* const open = first_undecided(pair);
  return open ? open->step : 0;
}

/// Whether the code says nothing against comparing the jobs.
bool is_compared(const Comparison& comparison) {
  return !comparison.code || (comparison.code->shared.empty() && !is_unexecuted(*comparison.code));
}

class Validator {
 public:
  Validator(const ValidationRequest& request, const std::string& version)
      : request_(request), states_(request.states), jobs_(request, version) {}

  Validation run() {
    const std::vector<CommandCell> cells = cells_of(request_.axes);
    open_states();
    tell_plan(cells);
    for (const CommandCell& cell : cells) {
      if (Interruption::noted() != 0) break;
      validation_.comparisons.push_back(compared(cell));
    }
    add_notes(cells);
    validation_.interrupted_by = Interruption::noted();
    return std::move(validation_);
  }

 private:
  bool is_fix() const { return before_.has_value(); }
  bool has_reference() const { return !request_.reference.empty(); }

  void open_states() {
    if (!request_.before.empty()) before_ = states_.open(request_.before);
    after_ = states_.open(request_.after);
    if (!is_fix()) return;
    changed_ = states_.changed(*before_, *after_);
    if (changed_ && changed_->empty()) {
      throw bad_value("STATE", request_.after,
                      fmt::format("a state in which a file differs from {}", before_->title));
    }
  }

  void tell_plan(const std::vector<CommandCell>& cells) {
    std::set<std::vector<std::string>> references;
    for (const CommandCell& cell : cells) {
      if (has_reference()) references.insert(filled(request_.reference, cell));
    }
    const std::size_t states = is_fix() ? 2 : 1;
    const std::size_t jobs = states * (cells.size() + references.size());
    jobs_.plan(jobs);
    request_.say(fmt::format("{} to run: {} in {}{}", counted(jobs, "job"),
                             counted(cells.size(), "cell"), counted(states, "state"),
                             has_reference() ? ", and the reference" : ""));
  }

  Comparison compared(const CommandCell& cell) {
    Comparison comparison;
    comparison.cell = in_words(cell);
    if (is_fix()) comparison.purpose = ComparisonPurpose::fix;
    try {
      compare(cell, comparison);
    } catch (const Interrupted&) {
      comparison.pairs.clear();
      comparison.code.reset();
      comparison.failure = "the validation was interrupted";
    }
    return comparison;
  }

  void compare(const CommandCell& cell, Comparison& comparison) {
    const std::vector<std::string> command = filled(request_.command, cell);
    const std::vector<std::string> reference = filled(request_.reference, cell);
    const CodeState& old = is_fix() ? *before_ : *after_;
    CellJobs jobs{{{"reference", reference, *after_, cell}},
                  {{"before", command, old, cell}},
                  {{"after", command, *after_, cell}}};
    if (!request_.reuse.empty()) run(jobs.after);
    if (has_reference()) run_reference(jobs.reference, jobs.after);
    if (is_fix()) run(jobs.before);
    run(jobs.after);
    if (!has_reference()) {
      comparison.pairs.push_back(diff(jobs.before, jobs.after));
    } else {
      if (is_fix()) comparison.pairs.push_back(diff(jobs.reference, jobs.before));
      comparison.pairs.push_back(diff(jobs.reference, jobs.after));
    }
    if (is_fix()) add_code(jobs, comparison);
    look_closer(jobs, comparison);
    if (request_.has_coverage) look_at_lines(jobs, comparison);
    for (ComparedPair& pair : comparison.pairs) {
      const bool is_after = &pair == &comparison.pairs.back();
      pair.sides[0].duration_s =
          (has_reference() ? jobs.reference : jobs.before).job->record.duration_s;
      pair.sides[1].duration_s = (is_after ? jobs.after : jobs.before).job->record.duration_s;
    }
  }

  void run(CellJob& one) {
    if (!one.job) one.job = &jobs_.ran(one.wish);
    if (Interruption::noted() != 0) throw Interrupted();
  }

  /// `beside`: a job of the same state, which ran before if references may be reused.
  void run_reference(CellJob& reference, const CellJob& beside) {
    if (beside.job) reference.job = &jobs_.ran_or_reused(reference.wish, *beside.job);
    run(reference);
  }

  static ComparedPair diff(const CellJob& a, const CellJob& b,
                           const std::vector<const SideFiles*>& noise = {},
                           const DiffRequest& request = {}) {
    return diff_runs(*a.job->files, *b.job->files, noise, request);
  }

  /// What the fix changed, and whether the reference measures both states.
  void add_code(const CellJobs& jobs, Comparison& comparison) {
    comparison.code = fixed_code({*before_, jobs.before.job->execution},
                                 {*after_, jobs.after.job->execution}, changed_);
    if (!has_reference()) return;
    CellJob old{{"reference-before", jobs.reference.wish.command, *before_, jobs.after.wish.cell}};
    run_reference(old, jobs.before);
    const ComparedPair of_references = diff(jobs.reference, old);
    comparison.code->reference_before = of_references.sides[1].outcome;
    const bool is_observed = !jobs.reference.job->files->steps().empty();
    comparison.code->changes_reference =
        is_observed && verdict_of_values(of_references) != Verdict::holds;
  }

  /// Runs two sides again around the step that decides, with modules: does what was seen repeat,
  /// and in which module does it begin? Of a matrix in the first cell of each outcome.
  void look_closer(const CellJobs& jobs, Comparison& comparison) {
    const std::optional<FixOutcome> outcome =
        is_fix() ? std::optional(outcome_of_fix(comparison)) : std::nullopt;
    if (!is_compared(comparison) || !looked_at_.insert(outcome).second) return;
    const bool is_of_before =
        has_reference() && (outcome == FixOutcome::fixed || outcome == FixOutcome::not_shown);
    ComparedPair& pair = is_of_before ? comparison.pairs.front() : comparison.pairs.back();
    const std::int64_t step = step_to_look_at(pair);
    if (step == 0) return;
    const CellJob& a = has_reference() ? jobs.reference : jobs.before;
    const CellJob& b = is_of_before ? jobs.before : jobs.after;
    jobs_.plan(2);
    request_.say(fmt::format("{} and {} run again, with the modules of step {}", a.wish.role,
                             b.wish.role, step));
    const bool repeats = compare_again(a, b, step, pair);
    if (repeats || !comparison.code) return;
    comparison.code->unrepeatable = is_of_before ? Unrepeatable::before : Unrepeatable::after;
  }

  /// Compares both sides once more, with the modules of second runs, and the noise of A's. Returns
  /// false, and leaves the pair, if the second run of B trains otherwise, and that of A does not.
  bool compare_again(const CellJob& a, const CellJob& b, std::int64_t step, ComparedPair& pair) {
    const CellJob second_a = again(a, step), second_b = again(b, step);
    const ComparedPair repeated_a = diff(a, second_a), repeated_b = diff(b, second_b);
    const bool a_repeats = verdict_of(repeated_a) != Verdict::violated;
    if (a_repeats && verdict_of(repeated_b) == Verdict::violated) return false;
    std::vector<const SideFiles*> noise;
    if (!has_same_bits(repeated_a)) noise.push_back(second_a.job->files.get());
    DiffRequest request;
    request.with_modules = {second_a.job->files.get(), second_b.job->files.get()};
    pair = diff(a, b, noise, request);
    return true;
  }

  /// A second run, from the step before `step` to it: an update needs the parameters before.
  CellJob again(const CellJob& first, std::int64_t step) {
    CellJob second{first.wish};
    second.wish.role += "-again";
    second.wish.has_modules = true;
    second.wish.start = std::max<std::int64_t>(step - 1, 1);
    second.wish.until = step;
    run(second);
    return second;
  }

  /// Of a fix that shows nothing: were the lines that it changed executed?
  void look_at_lines(const CellJobs& jobs, Comparison& comparison) {
    if (!comparison.code || comparison.code->executed.empty() ||
        outcome_of_fix(comparison) != FixOutcome::not_shown) {
      return;
    }
    const LineChanges changes =
        changed_lines({*before_, jobs.before.job->execution}, {*after_, jobs.after.job->execution},
                      *comparison.code, states_.scratch());
    const bool is_of_after = !changes.added.empty();
    CellJob traced{is_of_after ? jobs.after.wish : jobs.before.wish};
    traced.wish.role += "-coverage";
    traced.wish.lines =
        fs::path(request_.folder) / folder_of(traced.wish.cell) / "changed-lines.json";
    write_lines(traced.wish.lines, is_of_after ? changes.added : changes.removed);
    jobs_.plan(1);
    run(traced);
    const JobExecution& execution = traced.job->execution;
    const ChangedLines lines = changed_lines_in(execution, traced.wish.state);
    const bool is_on_cpu = std::ranges::all_of(
        execution.devices, [](const std::string& device) { return device.starts_with("CPU"); });
    if (lines.executed == 0 && !is_on_cpu) {
      jobs_.notes.emplace_back(
          "no changed line was seen to be executed; a backward pass on a GPU runs unseen");
    } else if (execution.is_known) {
      comparison.code->lines = lines;
    }
  }

  void add_notes(const std::vector<CommandCell>& cells) {
    validation_.notes = laws_in_words(cells, validation_.comparisons);
    validation_.notes.insert(validation_.notes.end(), jobs_.notes.begin(), jobs_.notes.end());
    if (!request_.seed && has_other_weights()) {
      validation_.notes.emplace_back(
          "the initial weights differ: let the script seed itself, or use --seed N");
    }
    if (request_.seed) {
      validation_.notes.push_back(fmt::format(
          "Lockstep seeded Python, NumPy and torch of rank r with {} + r, before the script",
          *request_.seed));
    }
  }

  /// Whether the weights differ before the first step.
  bool has_other_weights() const {
    return std::ranges::any_of(validation_.comparisons, [](const Comparison& one) {
      return std::ranges::any_of(one.pairs, [](const ComparedPair& pair) {
        return std::ranges::any_of(pair.preconditions, [](const Precondition& condition) {
          return condition.prerequisite == Prerequisite::initial_weights &&
                 condition.likeness == Likeness::different;
        });
      });
    });
  }

  const ValidationRequest& request_;
  CodeStates states_;
  ValidatedJobs jobs_;
  std::optional<CodeState> before_, after_;
  std::optional<std::vector<std::string>> changed_;
  std::set<std::optional<FixOutcome>> looked_at_;
  Validation validation_;
};

}  // namespace

Validation validate(const ValidationRequest& request, const std::string& version) {
  const Interruption interruption;
  return Validator(request, version).run();
}

}  // namespace lockstep
