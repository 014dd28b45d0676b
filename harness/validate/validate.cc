#include "harness/validate/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "harness/diff/diff_runs.h"
#include "harness/diff/diff_side.h"
#include "harness/job/watch_job.h"
#include "harness/launch/interruption.h"
#include "harness/record/run_folder.h"
#include "harness/validate/executed_files.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/usage_error.h"
#include "reports/comparison/conclude.h"
#include "reports/formats/job_report.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// A job that ran.
struct RanJob {
  WatchedJob watched;
  std::unique_ptr<SideFiles> files;
  ExecutedFiles executed;
};

class Validator {
 public:
  Validator(const ValidationRequest& request, const std::string& version)
      : request_(request), version_(version), states_(request.states) {}

  Validation run() {
    const std::vector<CommandCell> cells = cells_of(request_.axes);
    open_states();
    tell_plan(cells);
    for (const CommandCell& cell : cells) {
      if (is_interrupted()) break;
      validation_.comparisons.push_back(compared(cell));
    }
    if (!request_.seed && has_other_weights()) {
      validation_.notes.emplace_back(
          "the initial weights differ: let the script seed itself, or use --seed N");
    }
    if (request_.seed) {
      validation_.notes.push_back(fmt::format(
          "Lockstep seeded Python, NumPy and torch of rank r with {} + r, before the script",
          *request_.seed));
    }
    validation_.interrupted_by = Interruption::noted();
    return std::move(validation_);
  }

 private:
  static bool is_interrupted() { return Interruption::noted() != 0; }
  bool is_fix() const { return before_.has_value(); }

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
    std::map<std::vector<std::string>, int> references;
    for (const CommandCell& cell : cells) references[filled(request_.reference, cell)] = 1;
    const std::size_t states = is_fix() ? 2 : 1;
    planned_ = states * (cells.size() + references.size());
    request_.say(fmt::format("{} to run: {} in {}, and the reference", counted(planned_, "job"),
                             counted(cells.size(), "cell"), counted(states, "state")));
  }

  /// Runs a command in a state, unless it did before.
  const RanJob& ran(const std::vector<std::string>& command, const CodeState& state,
                    const std::string& role, const CommandCell& cell) {
    const auto [place, is_new] = jobs_.try_emplace({state.title + state.top.string(), command});
    if (!is_new) return place->second;
    RanJob& job = place->second;
    WatchRequest request;
    request.job = command;
    request.command = command;
    request.label = fmt::format("{} of {}", title_of_script(command), state.title);
    request.has_data = true;
    request.stall_s = request_.stall_s;
    request.ends_stalled = true;
    request.keep_bytes = std::uint64_t{256} << 20;
    request.history_bytes = std::uint64_t{1024} << 20;
    request.out = (fs::path(request_.folder) / folder_of(cell) / role).lexically_normal().string();
    make_folders(fs::path(request.out).parent_path());
    request.place = {state.folder, fs::absolute(request.out + ".log")};
    request.variables = state.variables;
    request.variables.emplace_back("PYTHONDONTWRITEBYTECODE", "1");  // a checkout stays as it is
    request.sources = state.sources;
    request.seed = request_.seed;
    job.watched = watch_job(request, version_);
    const fs::path root = fs::absolute(job.watched.folder);
    const JobRecord& record = job.watched.run.jobs[0];
    job.files = std::make_unique<SideFiles>(record, root, job.watched.folder);
    job.executed = executed_files(root / record.folder);
    tell(role, cell, record, request.out + ".log");
    return job;
  }

  static std::string title_of_script(const std::vector<std::string>& command) {
    for (const std::string& word : command) {
      if (fs::path(word).extension() == ".py") return word;
    }
    return command.front();
  }

  void tell(const std::string& role, const CommandCell& cell, const JobRecord& job,
            const std::string& log) {
    ++done_;
    const std::string where = cell.empty() ? "" : ", " + in_words(cell);
    request_.say(fmt::format("{} of {}: {}{}: {} ({:.1f} s, output: {})", done_, planned_, role,
                             where, heading_of(job), job.duration_s, log));
    if (done_ != 1 || planned_ == 1) return;
    request_.say(fmt::format("about {:.0f} s in all, if the others take as long",
                             job.duration_s * static_cast<double>(planned_)));
  }

  Comparison compared(const CommandCell& cell) {
    Comparison comparison;
    comparison.cell = in_words(cell);
    const std::vector<std::string> command = filled(request_.command, cell);
    const std::vector<std::string> reference = filled(request_.reference, cell);
    if (is_fix()) comparison.purpose = ComparisonPurpose::fix;
    const RanJob& right = ran(reference, *after_, "reference", cell);
    if (is_interrupted()) return interrupted(std::move(comparison));
    std::optional<ExecutedState> before;
    if (is_fix()) {
      const RanJob& job = ran(command, *before_, "before", cell);
      if (is_interrupted()) return interrupted(std::move(comparison));
      before.emplace(ExecutedState{*before_, job.executed});
      comparison.pairs.push_back(diff_runs(*right.files, *job.files, {}, {}));
    }
    const RanJob& job = ran(command, *after_, "after", cell);
    if (is_interrupted()) return interrupted(std::move(comparison));
    comparison.pairs.push_back(diff_runs(*right.files, *job.files, {}, {}));
    if (!is_fix()) return comparison;
    comparison.code = fixed_code(*before, {*after_, job.executed}, changed_);
    const RanJob& old = ran(reference, *before_, "reference-before", cell);
    if (is_interrupted()) return interrupted(std::move(comparison));
    const ComparedPair of_references = diff_runs(*right.files, *old.files, {}, {});
    comparison.code->reference_before = of_references.sides[1].outcome;
    comparison.code->changes_reference = verdict_of_values(of_references) != Verdict::holds;
    return comparison;
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

  static Comparison interrupted(Comparison comparison) {
    comparison.pairs.clear();
    comparison.code.reset();
    comparison.failure = "the validation was interrupted";
    return comparison;
  }

  const ValidationRequest& request_;
  const std::string& version_;
  CodeStates states_;
  std::optional<CodeState> before_, after_;
  std::optional<std::vector<std::string>> changed_;
  std::map<std::pair<std::string, std::vector<std::string>>, RanJob> jobs_;
  Validation validation_;
  std::size_t planned_ = 0, done_ = 0;
};

}  // namespace

Validation validate(const ValidationRequest& request, const std::string& version) {
  const Interruption interruption;
  return Validator(request, version).run();
}

}  // namespace lockstep
