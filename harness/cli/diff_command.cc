#include "harness/cli/diff_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/cli/bisection.h"
#include "harness/cli/github_step.h"
#include "harness/cli/named_job.h"
#include "harness/cli/option_values.h"
#include "harness/cli/report_formats.h"
#include "harness/cli/screen_options.h"
#include "harness/cli/standard_output.h"
#include "harness/diff/diff_runs.h"
#include "harness/diff/diff_weights.h"
#include "harness/record/environment.h"
#include "harness/record/run_folder.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/secrets.h"
#include "reports/base/usage_error.h"
#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"
#include "reports/record/known_findings.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMostSteps = INT64_MAX / 4;

/// An expectation of two comparisons: the job before a fix differs, the one after it does not.
constexpr const char* kFixed = "fixed";

/// An expectation of the values: both sides should hold the same, bit for bit.
constexpr const char* kSame = "same";

struct DiffWords {
  std::vector<std::string> runs;
  std::vector<std::string> noise;
  std::string map, align, until, expect, known, out;
  std::vector<std::string> formats;
  const CLI::App* app = nullptr;
  bool may_lack = false;
  bool is_bisection = false;
};

void add_diff_options(CLI::App& app, DiffWords& words) {
  words.app = &app;
  app.add_option(
         "RUN", words.runs,
         "A, which is right, and B: watched jobs, checkpoints, or folders of cells of a run "
         "of the catalogue; with --expect fixed: A, before, after")
      ->required()
      ->type_name("");
  app.add_option("--noise", words.noise, "a repetition of A or B, which measures noise; repeatable")
      ->type_name("RUN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  app.add_option("--map", words.map,
                 "a file with a name in A and its name, or names, in B per line")
      ->type_name("FILE");
  app.add_flag("--allow-missing", words.may_lack,
               "a tensor that only one side has is no finding; of checkpoints");
  app.add_option(
         "--align", words.align,
         "these steps correspond, as after a resume: A=100,B=1; next to a checkpoint the step "
         "of the job: A=100")
      ->type_name("A=K,B=L");
  app.add_option("--until", words.until, "the last step of A to compare")->type_name("STEP");
  app.add_option(
         "--expect", words.expect,
         "exit with 0 if B does so: agrees, diverges, not-finite, raises or hangs, 'bug' for all "
         "but the first; if it is 'fixed'; or if both are the 'same', without a bound for rounding")
      ->type_name("OUTCOME");
  app.add_option("--known", words.known, "findings listed in this file do not fail")
      ->type_name("FILE");
  app.add_option("-o,--out", words.out,
                 "also save the comparison in this folder, for 'report', 'runs' and 'pack'")
      ->type_name("DIR");
  add_formats_to_print(app, words.formats);
  add_bisect_option(app, words.is_bisection);
}

/// Steps that `--align` names; 0: none.
struct AlignedSteps {
  std::int64_t a = 0;
  std::int64_t b = 0;
};

/// "A=100,B=1", and for a job next to a checkpoint "A=100" or "B=1".
AlignedSteps aligned_steps(const std::string& text) {
  AlignedSteps steps;
  std::string rest = text;
  while (!rest.empty()) {
    const std::string word = rest.substr(0, rest.find(','));
    std::int64_t& step = word.starts_with("A=") ? steps.a : steps.b;
    if ((!word.starts_with("A=") && !word.starts_with("B=")) || step != 0) {
      throw bad_value("--align", text, "A=100,B=1, or one of both next to a checkpoint");
    }
    step = whole_number<std::int64_t>("--align", word.substr(2), 1, kMostSteps);
    rest.erase(0, word.size() + 1);
  }
  return steps;
}

/// What the command line names: a job or a checkpoint.
class NamedSide {
 public:
  explicit NamedSide(const std::string& named) : named_(named) {
    if (is_folder_of_cell(named) || !is_checkpoint(named)) job_ = std::make_unique<NamedJob>(named);
  }

  const std::string& named() const { return named_; }
  bool is_job() const { return job_ != nullptr; }
  const NamedJob& job() const { return *job_; }  ///< requires: it is one

  /// `step`: of a job; 0: its last one. Read once.
  const Weights& weights(std::int64_t step) {
    if (step != 0 && !is_job()) {
      throw bad_value("--align", std::to_string(step),
                      fmt::format("no step of {}, which is a checkpoint", named_));
    }
    if (!weights_) {
      weights_ =
          is_job() ? weights_of_job(job_->files(), step) : weights_of_checkpoint(named_, named_);
    }
    return *weights_;
  }

 private:
  std::string named_;
  std::unique_ptr<NamedJob> job_;
  std::optional<Weights> weights_;
};

/// The sides and the repetitions of one command line, compared in pairs.
class SideComparison {
 public:
  explicit SideComparison(const DiffWords& words)
      : words_(words), steps_(aligned_steps(words.align)) {
    if (!words.map.empty()) names_ = NameMap::read(words.map);
    if (!words.until.empty()) {
      until_ = whole_number<std::int64_t>("--until", words.until, 1, kMostSteps);
    }
    for (const std::string& run : words.noise) {
      repetitions_.push_back(std::make_unique<NamedSide>(run));
    }
    if (are_same_values() && !repetitions_.empty()) {
      throw bad_value("--noise", words.noise[0], "nothing next to --expect same, which has none");
    }
  }

  ComparedPair compare(NamedSide& a, NamedSide& b) {
    return a.is_job() && b.is_job() ? compare_jobs(a, b) : compare_weights(a, b);
  }

 private:
  ComparedPair compare_jobs(const NamedSide& a, const NamedSide& b) const {
    const DiffRequest request{names_, steps_.b - steps_.a, until_, {}, are_same_values()};
    if ((steps_.a == 0) != (steps_.b == 0)) throw bad_value("--align", words_.align, "A=100,B=1");
    if (words_.may_lack) {
      throw bad_value("--allow-missing", "true", "a checkpoint, as both sides are jobs");
    }
    std::vector<const SideFiles*> noise = repetitions_of({&a.job(), &b.job()});
    for (const auto& run : repetitions_) {
      if (!run->is_job()) {
        throw bad_value("--noise", run->named(), "a run of `lockstep watch`, as both sides are");
      }
      noise.push_back(&run->job().files());
    }
    return diff_runs(a.job().files(), b.job().files(), noise, request);
  }

  ComparedPair compare_weights(NamedSide& a, NamedSide& b) {
    if (until_ != 0) {
      throw bad_value("--until", words_.until, "no step: --align names the step of the job");
    }
    std::vector<Weights> noise;
    for (const auto& run : repetitions_) {
      noise.push_back(run->weights(run->is_job() ? std::max(steps_.a, steps_.b) : 0));
    }
    return diff_weights(a.weights(steps_.a), b.weights(steps_.b), std::move(noise),
                        {names_, are_same_values(), words_.may_lack});
  }

  bool are_same_values() const { return words_.expect == kSame; }

  const DiffWords& words_;
  AlignedSteps steps_;
  NameMap names_;
  std::int64_t until_ = 0;
  std::vector<std::unique_ptr<NamedSide>> repetitions_;
};

bool is_about_fix(const DiffWords& words) { return words.expect == kFixed; }

void check_expectation(const DiffWords& words) {
  const bool is_known = words.expect.empty() || is_about_fix(words) || words.expect == kSame ||
                        parse<ComparisonExpectation>(words.expect);
  if (!is_known) {
    throw bad_value("--expect", words.expect,
                    "agrees, bug, diverges, not-finite, raises, hangs, fixed or same");
  }
  const std::size_t runs = is_about_fix(words) ? 3 : 2;
  if (words.runs.size() == runs) return;
  throw bad_value("RUN", std::to_string(words.runs.size()) + " runs",
                  is_about_fix(words)
                      ? "three with --expect fixed: the reference, before and after the fix"
                      : "two: the reference, and the run compared with it");
}

/// The comparison, or those before and after a fix.
Comparison compared(const DiffWords& words) {
  Comparison comparison;
  if (is_about_fix(words)) comparison.purpose = ComparisonPurpose::fix;
  comparison.expected =
      parse<ComparisonExpectation>(words.expect).value_or(ComparisonExpectation::agrees);
  SideComparison sides(words);
  NamedSide reference(words.runs[0]);
  for (std::size_t i = 1; i < words.runs.size(); ++i) {
    NamedSide side(words.runs[i]);
    comparison.pairs.push_back(sides.compare(reference, side));
  }
  return comparison;
}

/// The command that does the same again: without the options that say only how it is reported.
std::vector<std::string> command_of(const DiffWords& words) {
  std::vector<std::string> command{"lockstep", "diff"};
  const std::vector<std::string> options = options_given(*words.app);
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), words.runs.begin(), words.runs.end());
  return command;
}

/// A run equals itself, which proves nothing.
void note_same_files(const DiffWords& words, RunRecord& run) {
  for (std::size_t i = 1; i < words.runs.size(); ++i) {
    std::error_code missing;
    if (!std::filesystem::equivalent(words.runs[0], words.runs[i], missing)) continue;
    run.notes.push_back(fmt::format("{} and {} are the same files: name another run", words.runs[0],
                                    words.runs[i]));
  }
}

/// With `--out`, formats are for files.
void show(const RunRecord& run, const DiffWords& words,
          const std::vector<const Renderer*>& renderers,
          const std::optional<KnownFindings>& known) {
  if (!is_for_screen(renderers, words.out)) {
    return print_in_format(*renderers[0], run, known);
  }
  const Screen screen = screen_of(STDOUT_FILENO, Verbosity::overview, words.out, renderers);
  write_standard_output(render_screen(run, screen) + known_in_words(run, known));
}

ExitStatus diff(const DiffWords& words) {
  const std::vector<const Renderer*> renderers = renderers_for(words.formats, words.out);
  std::optional<KnownFindings> known;
  if (!words.known.empty()) known = KnownFindings::read(words.known);
  check_expectation(words);
  RunRecord run;
  run.command = mask_command(command_of(words));
  run.environment = describe_environment(utc_now());
  run.environment.lockstep_version = LOCKSTEP_VERSION;
  std::filesystem::path folder;  // made before a long comparison
  if (!words.out.empty()) folder = make_run_folder(words.out, run);
  run.comparisons.push_back(compared(words));
  note_same_files(words, run);
  run.planned = counts_of(run);
  show(run, words, renderers, known);
  if (!folder.empty()) {
    save_record(folder, run);
    const auto unwritten = write_reports(renderers, run, folder.string(), known, stdout);
    if (unwritten) throw Error(*unwritten);
  }
  return exit_status(without_known(run, known));
}

}  // namespace

Command diff_command() {
  auto words = std::make_shared<DiffWords>();
  return {"diff",
          [words](CLI::App& app) { add_diff_options(app, *words); },
          [words] { return diff(*words); },
          {},
          [] {
            std::vector<std::string> outcomes = all_names<ComparisonExpectation>();
            outcomes.insert(outcomes.end(), {kFixed, kSame});
            return OfferedWords{{"--format", format_names()}, {"--expect", std::move(outcomes)}};
          }};
}

}  // namespace lockstep
