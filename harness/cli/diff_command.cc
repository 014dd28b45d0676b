#include "harness/cli/diff_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/cli/bisection.h"
#include "harness/cli/named_job.h"
#include "harness/cli/option_values.h"
#include "harness/cli/standard_output.h"
#include "harness/diff/diff_keys.h"
#include "harness/diff/diff_page.h"
#include "harness/diff/diff_runs.h"
#include "harness/diff/diff_weights.h"
#include "harness/diff/diff_words.h"
#include "harness/diff/fix.h"
#include "reports/base/error.h"
#include "reports/base/terminal.h"
#include "reports/base/usage_error.h"
#include "reports/record/expected_outcome.h"
#include "reports/record/finding_key.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMostSteps = INT64_MAX / 4;

/// Instead of a repetition: both sides should hold the same values.
constexpr const char* kNoNoise = "none";

/// An expectation of two comparisons: the job before a fix differs, the one after it does not.
constexpr const char* kFixed = "fixed";

/// The outcomes of one comparison that are a bug.
constexpr const char* kBug = "bug";

struct DiffWords {
  std::vector<std::string> runs;
  std::vector<std::string> noise;
  std::string map, align, until, expect, known, format = "console";
  bool may_lack = false;
  bool is_bisection = false;
};

void add_diff_options(CLI::App& app, DiffWords& words) {
  app.add_option(
         "RUN", words.runs,
         "A, which is right, and B: watched jobs, checkpoints, or folders of cells of a run "
         "of the catalogue; with --expect fixed: A, before, after")
      ->required()
      ->type_name("");
  app.add_option("--noise", words.noise,
                 "a repetition of A or B, which measures noise; repeatable; of checkpoints also "
                 "'none': both should hold the same values")
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
         "exit with 0 if B does so: agrees, diverges or not-finite, 'bug' for both of these; or "
         "if it is 'fixed'")
      ->type_name("OUTCOME");
  app.add_option("--known", words.known, "findings listed in this file do not fail")
      ->type_name("FILE");
  app.add_option("--format", words.format, "console, html, json or keys (a file for --known)")
      ->type_name("FORMAT")
      ->capture_default_str();
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
      if (run == kNoNoise) continue;
      repetitions_.push_back(std::make_unique<NamedSide>(run));
    }
    are_same_values_ = repetitions_.size() != words.noise.size();
    if (are_same_values_ && !repetitions_.empty()) {
      throw bad_value("--noise", kNoNoise, "either 'none' or repetitions");
    }
  }

  DiffRecord compare(NamedSide& a, NamedSide& b) {
    return a.is_job() && b.is_job() ? compare_jobs(a, b) : compare_weights(a, b);
  }

 private:
  DiffRecord compare_jobs(const NamedSide& a, const NamedSide& b) const {
    DiffRequest request{names_, steps_.b - steps_.a, until_};
    if ((steps_.a == 0) != (steps_.b == 0)) throw bad_value("--align", words_.align, "A=100,B=1");
    if (are_same_values_) throw bad_value("--noise", kNoNoise, "a run, as both sides are jobs");
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

  DiffRecord compare_weights(NamedSide& a, NamedSide& b) {
    if (until_ != 0) {
      throw bad_value("--until", words_.until, "no step: --align names the step of the job");
    }
    std::vector<Weights> noise;
    for (const auto& run : repetitions_) {
      noise.push_back(run->weights(run->is_job() ? std::max(steps_.a, steps_.b) : 0));
    }
    return diff_weights(a.weights(steps_.a), b.weights(steps_.b), std::move(noise),
                        {names_, are_same_values_, words_.may_lack});
  }

  const DiffWords& words_;
  AlignedSteps steps_;
  NameMap names_;
  std::int64_t until_ = 0;
  bool are_same_values_ = false;
  std::vector<std::unique_ptr<NamedSide>> repetitions_;
};

bool is_about_fix(const DiffWords& words) { return words.expect == kFixed; }

void check_expectation(const DiffWords& words) {
  const auto outcome = parse<ExpectedOutcome>(words.expect);
  const bool is_known = words.expect.empty() || words.expect == kBug || is_about_fix(words) ||
                        (outcome && outcome != ExpectedOutcome::hangs);
  if (!is_known) {
    throw bad_value("--expect", words.expect, "agrees, diverges, not-finite, bug or fixed");
  }
  const std::size_t runs = is_about_fix(words) ? 3 : 2;
  if (words.runs.size() == runs) return;
  throw bad_value("RUN", std::to_string(words.runs.size()) + " runs",
                  is_about_fix(words)
                      ? "three with --expect fixed: the reference, before and after the fix"
                      : "two: the reference, and the run compared with it");
}

void show(const DiffRecord& diff, const std::string& format,
          const std::optional<KnownFindings>& known) {
  if (format == "json") return write_standard_output(diff_in_json(diff));
  if (format == "keys") return write_standard_output(lines_of_keys(keys_of(diff)));
  write_standard_output(diff_in_words(diff, terminal_of(STDOUT_FILENO).width) +
                        keys_in_words(diff, known));
}

/// Whether the run shows the bug: met, not met, or undecided.
ExitStatus status_of_bug(const DiffRecord& diff) {
  const ExitStatus status = status_of(diff, std::nullopt);
  if (status == ExitStatus::failed) return ExitStatus::as_expected;
  return status == ExitStatus::as_expected ? ExitStatus::failed : status;
}

/// Whether the run turned out as `--expect` says.
ExitStatus status_by_expectation(const DiffRecord& diff, const std::string& expected,
                                 const std::optional<KnownFindings>& known) {
  const auto outcome = parse<ExpectedOutcome>(expected);
  if (expected.empty() || outcome == ExpectedOutcome::agrees) return status_of(diff, known);
  const ExitStatus status = status_of_bug(diff);
  if (status != ExitStatus::as_expected || expected == kBug) return status;
  const bool is_not_finite = kind_of(*first_different(diff)) == FindingKind::not_finite;
  return is_not_finite == (outcome == ExpectedOutcome::not_finite) ? status : ExitStatus::failed;
}

/// Both comparisons of a fix: one page, one document, or one after the other.
ExitStatus show_fix(const DiffRecord& before, const DiffRecord& after, const std::string& format,
                    const std::optional<KnownFindings>& known) {
  if (format == "html") {
    write_standard_output(diff_page({{"before the fix", &before}, {"after the fix", &after}},
                                    fix_in_words(before, after)));
  } else if (format == "json") {
    write_standard_output(fix_in_json(before, after));
  } else {
    show(before, format, std::nullopt);
    if (format == "console") write_standard_output("\n");
    show(after, format, known);
    if (format == "console") write_standard_output("\n" + fix_in_words(before, after) + "\n");
  }
  return worse(status_of_bug(before), status_of(after, known));
}

ExitStatus diff(const DiffWords& words) {
  const std::vector<std::string> formats{"console", "html", "json", "keys"};
  if (std::find(formats.begin(), formats.end(), words.format) == formats.end()) {
    throw unknown_name("format of 'diff'", words.format, formats);
  }
  std::optional<KnownFindings> known;
  if (!words.known.empty()) known = KnownFindings::read(words.known);
  check_expectation(words);
  SideComparison comparison(words);
  NamedSide reference(words.runs[0]);
  const auto compared_with = [&](const std::string& run) {
    NamedSide side(run);
    return comparison.compare(reference, side);
  };
  const DiffRecord first = compared_with(words.runs[1]);
  if (is_about_fix(words)) {
    return show_fix(first, compared_with(words.runs[2]), words.format, known);
  }
  if (words.format == "html") {
    write_standard_output(diff_page({{"", &first}}, ""));
  } else {
    show(first, words.format, known);
  }
  return status_by_expectation(first, words.expect, known);
}

}  // namespace

Command diff_command() {
  auto words = std::make_shared<DiffWords>();
  return {"diff",
          [words](CLI::App& app) { add_diff_options(app, *words); },
          [words] { return diff(*words); },
          {},
          [] {
            return OfferedWords{{"--format", {"console", "html", "json", "keys"}},
                                {"--expect", {"agrees", "bug", "diverges", "fixed", "not-finite"}}};
          }};
}

}  // namespace lockstep
