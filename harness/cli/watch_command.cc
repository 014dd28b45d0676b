#include "harness/cli/watch_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/cli/bisection.h"
#include "harness/cli/github_step.h"
#include "harness/cli/option_values.h"
#include "harness/cli/report_formats.h"
#include "harness/cli/screen_options.h"
#include "harness/cli/settings_file.h"
#include "harness/cli/watch_comparison.h"
#include "harness/job/expected_error.h"
#include "harness/job/job_record.h"
#include "harness/job/watch_job.h"
#include "harness/job/watch_request.h"
#include "harness/launch/python_on_path.h"
#include "reports/base/error.h"
#include "reports/formats/renderer.h"
#include "reports/record/limits.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMostSteps = INT64_MAX / 2;
constexpr std::uint64_t kMostMebibytes = 1 << 20;
constexpr int kMostRepetitions = 100;

struct WatchWords {
  std::vector<std::string> job;
  std::string every = "1", start = "1", until, keep = "256", store_first = "0", history = "1024",
              min_steps = "1", stall = "300", on_stall = "wait", repeat = "0", perturb = "0";
  std::string tensors, ignore, replicas, agree_every, expect, known, against, label, out, node;
  std::vector<std::string> also, formats;
  bool has_data = false, has_modules = false, keeps_before = false, fails_fast = false,
       is_strict = false, begins_off = false, is_bisection = false, is_group_readable = false;
  VerbosityFlags verbosity;
  const CLI::App* app = nullptr;
};

void add_observation_options(CLI::App& app, WatchWords& words) {
  app.option_defaults()->group("Observed steps and tensors");
  app.add_option("--every", words.every, "observe one step of N")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--start", words.start, "the first step to observe")
      ->type_name("STEP")
      ->capture_default_str();
  app.add_option("--until", words.until, "the last step to observe")->type_name("STEP");
  app.add_flag("--off", words.begins_off,
               "observe nothing until a file 'on' is in the run's folder");
  app.add_option("--tensors", words.tensors,
                 "observe only parameters with such names, a regular expression of Python")
      ->type_name("REGEX");
  app.add_option("--ignore", words.ignore, "leave out parameters with such names, likewise")
      ->type_name("REGEX");
  app.add_option("--replicas", words.replicas,
                 "every N ranks in a row hold other parts of the tensors: tp=2")
      ->type_name("NAME=N");
  app.add_option("--agree-every", words.agree_every,
                 "ranks may differ after a step, if they agree before one of N (LocalSGD)")
      ->type_name("N");
  app.add_option("--also", words.also,
                 "also observe buffers, optimizer-state, random-state or micro-batches")
      ->type_name("WHAT[,WHAT...]")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--data", words.has_data, "observe which samples each rank sees");
  app.add_flag("--modules", words.has_modules,
               "observe outputs of modules and the gradients at them, for 'diff'; slower");
}

void add_storage_options(CLI::App& app, WatchWords& words) {
  app.option_defaults()->group("Files");
  app.add_option("-o,--out", words.out, "folder of the files (default: runs/<utc>)")
      ->type_name("DIR");
  app.add_flag("--group-readable", words.is_group_readable,
               "the group may read these files, too (default: their owner alone)");
  app.add_option("--node", words.node,
                 "this machine, one of several, in a shared '--out': its files go to DIR/NAME")
      ->type_name("NAME");
  app.add_option("--keep", words.keep, "MiB of values that each rank stores once ranks differ")
      ->type_name("MIB")
      ->capture_default_str();
  app.add_option("--store-first", words.store_first,
                 "store the values of so many first steps, as far as --keep allows, so that 'diff' "
                 "is exact there")
      ->type_name("STEPS")
      ->capture_default_str();
  app.add_flag("--keep-before", words.keeps_before,
               "copy the values of each step in memory, so that those of the first difference are "
               "stored");
  app.add_option(
         "--history", words.history,
         "MiB of rows that each rank keeps: of older steps in which all ranks agree, one of 100 "
         "keeps its rows")
      ->type_name("MIB")
      ->capture_default_str();
}

void add_outcome_options(CLI::App& app, WatchWords& words) {
  app.option_defaults()->group("Outcome");
  app.add_flag("--fail-fast", words.fails_fast, "end the job when its ranks differ");
  app.add_option("--stall", words.stall,
                 "seconds without progress of any rank, after which each is asked where it is")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--on-stall", words.on_stall, "'kill' ends a job that hangs")
      ->type_name("ACTION")
      ->capture_default_str();
  app.add_option(
         "--expect", words.expect,
         "exit with 0 if the job does so: agrees, diverges, hangs, not-finite, or raises an "
         "error, with a regular expression for its text")
      ->type_name("OUTCOME[=REGEX]");
  app.add_option("--min-steps", words.min_steps, "that all ranks must train for '--expect agrees'")
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--strict", words.is_strict,
               "undecided if a tensor could not be compared between ranks");
  app.add_option("--known", words.known, "findings listed in this file do not fail")
      ->type_name("FILE");
  add_bisect_option(app, words.is_bisection);
  app.option_defaults()->group("Other jobs");
  app.add_option("--against", words.against,
                 "compare the job with another one (see 'lockstep diff'), while it runs and then")
      ->type_name("RUN");
  app.add_option("--repeat", words.repeat,
                 "run the job N more times, into DIR/repeat-1 and so on: 'diff' takes them for its "
                 "noise")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--perturb", words.perturb,
                 "then N times with initial weights moved by a unit in the last place, likewise: 3 "
                 "or more measure what rounding may do")
      ->type_name("N")
      ->capture_default_str();
}

void add_watch_report_options(CLI::App& app, WatchWords& words) {
  app.option_defaults()->group("Report");
  app.add_option("--label", words.label, "name of the job in reports (default: its command)")
      ->type_name("NAME");
  add_formats_of_files(app, words.formats);
  add_verbosity_options(app, words.verbosity,
                        "print the tables, too; -vv: every claim and finding in full");
}

void add_watch_options(CLI::App& app, WatchWords& words) {
  words.app = &app;
  add_observation_options(app, words);
  add_storage_options(app, words);
  add_outcome_options(app, words);
  add_watch_report_options(app, words);
}

/// The word that a setting fills, one of `kSettingNames`.
std::string& word_of(const std::string& name, WatchWords& words) {
  const std::map<std::string_view, std::string*> known{
      {"every", &words.every},     {"start", &words.start},     {"until", &words.until},
      {"tensors", &words.tensors}, {"ignore", &words.ignore},   {"replicas", &words.replicas},
      {"keep", &words.keep},       {"history", &words.history}, {"agree-every", &words.agree_every},
      {"stall", &words.stall},     {"known", &words.known},     {"label", &words.label}};
  return *known.at(name);
}

void take_settings(WatchWords& words) {
  if (!std::filesystem::exists(kWatchSettings)) return;
  for (const auto& [name, values] : read_watch_settings(kWatchSettings)) {
    word_of(name, words) = values.front();
  }
}

void check_expression(const char* option, const std::string& text) {
  const std::string fault = fault_in_expression(text);
  if (fault.empty()) return;
  throw bad_value(option, text, fmt::format("a regular expression of Python ({})", fault));
}

void check_replicas(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (text.empty()) return;
  if (sign == 0 || sign == text.npos) throw bad_value("--replicas", text, "like tp=2");
  whole_number<int>("--replicas", text.substr(sign + 1), 2, kMostRanksOfRecord);
}

void check_node(const WatchWords& words) {
  if (words.node.empty()) return;
  if (words.node.find('/') != std::string::npos || words.node == "." || words.node == "..") {
    throw bad_value("--node", words.node, "the name of a folder in --out");
  }
  if (words.out.empty()) throw bad_value("--out", "", "a folder that all machines share");
  if (!words.expect.empty() || words.is_bisection) {
    throw bad_value(words.is_bisection ? "--bisect" : "--expect", words.expect,
                    "none with --node: `lockstep report` judges all machines");
  }
}

void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (!takes_value(*option) || std::find(values.begin(), values.end(), "") == values.end())
      continue;
    throw bad_value(option->get_name(), "", "a value, or leave the option out");
  }
}

/// The command that does the same again: without what says only where and how it is reported.
std::vector<std::string> command_of(const WatchWords& words) {
  std::vector<std::string> command{"lockstep", "watch"};
  const std::vector<std::string> options = options_given(*words.app);
  command.insert(command.end(), options.begin(), options.end());
  command.emplace_back("--");
  command.insert(command.end(), words.job.begin(), words.job.end());
  return command;
}

/// "raises=Expected to mark a variable ready only once".
void take_expectation(const std::string& text, WatchRequest& request) {
  const std::size_t sign = text.find('=');
  request.expected = parse<ExpectedOutcome>(text.substr(0, sign));
  const bool has_pattern = sign != text.npos;
  if (!request.expected || (has_pattern && request.expected != ExpectedOutcome::raises)) {
    throw bad_value("--expect", text,
                    "agrees, diverges, hangs, not-finite, raises or raises=REGEX");
  }
  if (!has_pattern) return;
  request.error = text.substr(sign + 1);
  const std::string fault = request.error.empty() ? "it is empty" : fault_in_pattern(request.error);
  if (fault.empty()) return;
  throw bad_value("--expect", text,
                  fmt::format("raises=REGEX with an expression of RE2 ({})", fault));
}

void take_steps(const WatchWords& words, WatchRequest& request) {
  request.every = whole_number<std::int64_t>("--every", words.every, 1, kMostSteps);
  request.start = whole_number<std::int64_t>("--start", words.start, 1, kMostSteps);
  if (!words.until.empty()) {
    request.until = whole_number<std::int64_t>("--until", words.until, 1, kMostSteps);
    if (request.until < request.start) {
      throw bad_value("--until", words.until,
                      fmt::format("a step that is not before --start, {}", request.start));
    }
  }
  request.min_steps = whole_number<std::int64_t>("--min-steps", words.min_steps, 1, kMostSteps);
}

void take_limits_of_files(const WatchWords& words, WatchRequest& request) {
  request.keep_bytes = whole_number<std::uint64_t>("--keep", words.keep, 0, kMostMebibytes) << 20;
  request.store_first =
      whole_number<std::int64_t>("--store-first", words.store_first, 0, kMostSteps);
  // A journal of more than 2 GiB cannot be read.
  request.history_bytes = whole_number<std::uint64_t>("--history", words.history, 1, 1536) << 20;
}

/// Call after `take_steps`.
void take_observation(const WatchWords& words, WatchRequest& request) {
  check_expression("--tensors", words.tensors);
  check_expression("--ignore", words.ignore);
  request.tensors = words.tensors;
  request.ignore = words.ignore;
  check_replicas(words.replicas);
  request.replicas = words.replicas;
  request.has_data = words.has_data;
  request.has_modules = words.has_modules;
  request.keeps_before = words.keeps_before;
  if (!words.agree_every.empty()) {
    request.agree_every =
        whole_number<std::int64_t>("--agree-every", words.agree_every, 1, kMostSteps);
    if (request.every > 1) {
      throw bad_value("--every", words.every, "1, since --agree-every needs every step");
    }
  }
  for (const std::string& word : words.also) {
    const auto also = parse<Also>(word);
    if (!also) {
      throw bad_value("--also", word,
                      "one of buffers, optimizer-state, random-state and micro-batches");
    }
    request.also.push_back(*also);
  }
  request.begins_off = words.begins_off;
}

void take_outcome(const WatchWords& words, WatchRequest& request) {
  request.fails_fast = words.fails_fast;
  request.stall_s = static_cast<double>(whole_number<int>("--stall", words.stall, 1, 1'000'000));
  if (words.on_stall != "wait" && words.on_stall != "kill") {
    throw bad_value("--on-stall", words.on_stall, "wait or kill");
  }
  request.ends_stalled = words.on_stall == "kill";
  request.is_strict = words.is_strict;
  if (!words.expect.empty()) {
    take_expectation(words.expect, request);
  }
  // The status of a job that failed by itself says nothing about its ranks.
  if (words.is_bisection && !request.expected) request.expected = ExpectedOutcome::agrees;
}

MoreRuns more_runs_of(const WatchWords& words) {
  return {whole_number<int>("--repeat", words.repeat, 0, kMostRepetitions),
          whole_number<int>("--perturb", words.perturb, 0, kMostRepetitions)};
}

WatchRequest request_of(const WatchWords& words) {
  if (words.job.empty()) {
    throw bad_value("--", "",
                    "the command to watch: lockstep watch -- torchrun --nproc-per-node 2 train.py");
  }
  WatchRequest request;
  request.job = words.job;
  check_values(*words.app);
  request.command = command_of(words);
  take_steps(words, request);
  take_limits_of_files(words, request);
  take_observation(words, request);
  take_outcome(words, request);
  const MoreRuns more = more_runs_of(words);
  if (more.repeated + more.perturbed > 0 && !words.node.empty()) {
    throw bad_value(more.repeated > 0 ? "--repeat" : "--perturb",
                    more.repeated > 0 ? words.repeat : words.perturb,
                    "none with --node: run the job again yourself");
  }
  if (!words.known.empty()) request.known = KnownFindings::read(words.known);
  request.label = words.label;
  check_node(words);
  request.out = words.out;
  if (words.is_group_readable) request.readers = Readers::group;
  request.node = words.node;
  request.formats = words.formats;
  return request;
}

/// For a later `lockstep diff`.
std::string advice_on(const RunRecord& run, const WatchWords& words) {
  return is_recording(run.jobs[0]) && !words.has_data
             ? "`lockstep diff` compares the samples, too, if both jobs are watched with --data.\n"
             : "";
}

/// The report goes to standard error: standard output is the job's.
ExitStatus watch(const WatchWords& words) {
  const std::vector<const Renderer*> renderers = find_renderers(words.formats);
  WatchRequest request = request_of(words);
  request.fills_charts = has_charts(renderers);
  std::optional<NamedJob> reference;
  if (!words.against.empty()) {
    reference.emplace(words.against);
    request.compare = [&](const JobRecord& job, const std::filesystem::path& folder) {
      return difference_from(*reference, request.known, job, folder);
    };
  }
  WatchedJob watched = watch_job(request, LOCKSTEP_VERSION);
  const Screen screen =
      screen_of(STDERR_FILENO, verbosity_of(words.verbosity), watched.folder, renderers);
  if (reference) compare_with(*reference, watched);
  std::fputs((render_screen(watched.run, screen) + known_in_words(watched.run, request.known) +
              advice_on(watched.run, words))
                 .c_str(),
             stderr);
  run_again(request, more_runs_of(words), watched, screen.width);
  // Reports come last, with all comparisons.
  const auto unwritten =
      write_reports(renderers, watched.run, watched.folder, request.known, stderr);
  if (unwritten) throw Error(*unwritten);  // last: the verdict is said, and the record is complete
  const RunRecord judged = without_known(watched.run, request.known);
  return static_cast<ExitStatus>(exit_of(judged.jobs[0], watched.end, judged.comparisons));
}

}  // namespace

Command watch_command() {
  auto words = std::make_shared<WatchWords>();
  return {"watch", [words](CLI::App& app) { add_watch_options(app, *words); },
          [words] { return watch(*words); },
          [words](std::vector<std::string> job) {
            words->job = std::move(job);
            take_settings(*words);
          },
          [] {
            return OfferedWords{{"--format", format_names()},
                                {"--also", all_names<Also>()},
                                {"--expect", all_names<ExpectedOutcome>()},
                                {"--on-stall", {"kill", "wait"}}};
          }};
}

}  // namespace lockstep
