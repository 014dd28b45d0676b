#include "harness/cli/diff_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/cli/named_job.h"
#include "harness/cli/option_values.h"
#include "harness/cli/standard_output.h"
#include "harness/diff/diff_keys.h"
#include "harness/diff/diff_runs.h"
#include "harness/diff/diff_words.h"
#include "reports/base/error.h"
#include "reports/base/terminal.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMostSteps = INT64_MAX / 4;

/// What a fix is expected to show, next to a reference that is right.
///   bug    the job differs
///   fixed  the job before the fix differs, and the one after it does not
enum class ExpectedDiff { bug, fixed };

struct DiffWords {
  std::vector<std::string> runs;
  std::vector<std::string> noise;
  std::string map, align, until, expect, known, format = "console";
};

void add_diff_options(CLI::App& app, DiffWords& words) {
  app.add_option("RUN", words.runs,
                 "A, which is right, and B; with --expect fixed: A, before, after")
      ->required()
      ->type_name("");
  app.add_option("--noise", words.noise, "a repetition of A or B, which measures noise; repeatable")
      ->type_name("RUN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--map", words.map,
                 "a file with a name in A and its name, or names, in B per line")
      ->type_name("FILE");
  app.add_option("--align", words.align, "these steps correspond, as after a resume: A=100,B=1")
      ->type_name("A=K,B=L");
  app.add_option("--until", words.until, "the last step of A to compare")->type_name("STEP");
  app.add_option("--expect", words.expect, "exit with 0 if B shows the 'bug', or if it is 'fixed'")
      ->type_name("OUTCOME");
  app.add_option("--known", words.known, "findings listed in this file do not fail")
      ->type_name("FILE");
  app.add_option("--format", words.format, "console, json or keys (a file for --known)")
      ->type_name("FORMAT")
      ->capture_default_str();
}

/// "A=100,B=1": step of B minus step of A.
std::int64_t offset_of(const std::string& text) {
  if (text.empty()) return 0;
  const std::size_t comma = text.find(",B=");
  if (!text.starts_with("A=") || comma == text.npos) throw bad_value("--align", text, "A=100,B=1");
  const auto a = whole_number<std::int64_t>("--align", text.substr(2, comma - 2), 1, kMostSteps);
  const auto b = whole_number<std::int64_t>("--align", text.substr(comma + 3), 1, kMostSteps);
  return b - a;
}

DiffRequest request_of(const DiffWords& words) {
  DiffRequest request;
  if (!words.map.empty()) request.names = NameMap::read(words.map);
  request.offset = offset_of(words.align);
  if (!words.until.empty()) {
    request.until = whole_number<std::int64_t>("--until", words.until, 1, kMostSteps);
  }
  return request;
}

std::optional<ExpectedDiff> expectation_of(const DiffWords& words) {
  std::optional<ExpectedDiff> expected;
  if (words.expect == "bug") expected = ExpectedDiff::bug;
  if (words.expect == "fixed") expected = ExpectedDiff::fixed;
  if (!words.expect.empty() && !expected) throw bad_value("--expect", words.expect, "bug or fixed");
  const std::size_t runs = expected == ExpectedDiff::fixed ? 3 : 2;
  if (words.runs.size() != runs) {
    throw bad_value("RUN", std::to_string(words.runs.size()) + " runs",
                    expected == ExpectedDiff::fixed
                        ? "three with --expect fixed: the reference, before and after the fix"
                        : "two: the reference, and the run compared with it");
  }
  return expected;
}

std::string keys_as_lines(const DiffRecord& diff) {
  std::string text;
  for (const std::string& key : keys_of(diff)) text += key + "\n";
  return text;
}

void show(const DiffRecord& diff, const std::string& format,
          const std::optional<KnownFindings>& known) {
  if (format == "json") return write_standard_output(diff_in_json(diff));
  if (format == "keys") return write_standard_output(keys_as_lines(diff));
  write_standard_output(diff_in_words(diff, terminal_of(STDOUT_FILENO).width) +
                        keys_in_words(diff, known));
}

/// Whether the run shows the bug: met, not met, or undecided.
ExitStatus status_of_bug(const DiffRecord& diff) {
  const ExitStatus status = status_of(diff, std::nullopt);
  if (status == ExitStatus::failed) return ExitStatus::as_expected;
  return status == ExitStatus::as_expected ? ExitStatus::failed : status;
}

/// "fixed", "still there: ...", "new: ...".
std::string fix_in_words(const DiffRecord& before, const DiffRecord& after) {
  const bool was_there = verdict_of(before) == Verdict::violated;
  const Verdict now = verdict_of(after);
  if (was_there && now == Verdict::holds) return "FIXED: " + verdict_in_words(after);
  if (was_there && now == Verdict::violated) return "STILL THERE: " + verdict_in_words(after);
  if (!was_there && now == Verdict::violated) return "NEW: " + verdict_in_words(after);
  return was_there ? verdict_in_words(after)
                   : "NOT SHOWN BEFORE THE FIX: " + verdict_in_words(before);
}

ExitStatus diff(const DiffWords& words) {
  if (words.format != "console" && words.format != "json" && words.format != "keys") {
    throw unknown_name("format of 'diff'", words.format, {"console", "json", "keys"});
  }
  std::optional<KnownFindings> known;
  if (!words.known.empty()) known = KnownFindings::read(words.known);
  const auto expected = expectation_of(words);
  const DiffRequest request = request_of(words);
  const NamedJob reference(words.runs[0]);
  std::vector<std::unique_ptr<NamedJob>> repetitions;
  for (const std::string& run : words.noise) {
    repetitions.push_back(std::make_unique<NamedJob>(run));
  }
  const auto compared_with = [&](const std::string& run) {
    const NamedJob job(run);
    std::vector<const JobFiles*> noise;
    for (const auto& repetition : repetitions) noise.push_back(&repetition->files());
    for (const NamedJob* one : {&reference, &job}) {
      if (one->repetition()) noise.push_back(one->repetition());
    }
    return diff_runs(reference.files(), job.files(), noise, request);
  };
  const DiffRecord first = compared_with(words.runs[1]);
  show(first, words.format, expected == ExpectedDiff::fixed ? std::nullopt : known);
  if (!expected) return status_of(first, known);
  if (expected == ExpectedDiff::bug) return status_of_bug(first);
  const DiffRecord after = compared_with(words.runs[2]);
  if (words.format == "console") write_standard_output("\n");
  show(after, words.format, known);
  if (words.format == "console") write_standard_output("\n" + fix_in_words(first, after) + "\n");
  return worse(status_of_bug(first), status_of(after, known));
}

}  // namespace

Command diff_command() {
  auto words = std::make_shared<DiffWords>();
  return {"diff", [words](CLI::App& app) { add_diff_options(app, *words); },
          [words] { return diff(*words); }};
}

}  // namespace lockstep
