#include "harness/cli/validate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
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
#include "harness/cli/standard_output.h"
#include "harness/record/environment.h"
#include "harness/record/run_folder.h"
#include "harness/validate/validate.h"
#include "reports/base/error.h"
#include "reports/base/secrets.h"
#include "reports/base/usage_error.h"
#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"

namespace lockstep {

namespace {

struct ValidateWords {
  std::string range, before, after, reference, build, seed, reuse, config, out, stall = "120";
  std::vector<std::string> job, sets, with, formats;
  const CLI::App* app = nullptr;
  bool is_bisection = false, has_coverage = false;
};

void add_validate_options(CLI::App& app, ValidateWords& words) {
  words.app = &app;
  app.add_option("RANGE", words.range, "two commits, A..B: before and after the fix")
      ->type_name("");
  app.add_option("--before", words.before,
                 "the state before the fix: a commit, a folder, or the python of an environment")
      ->type_name("STATE");
  app.add_option("--after", words.after,
                 "the state after it, likewise (default: the working folder); alone: does it train "
                 "as the reference does?")
      ->type_name("STATE");
  app.add_option("--reference", words.reference,
                 "the command that trains right, such as on one rank with the whole batch")
      ->type_name("COMMAND");
  app.add_option(
         "--set", words.sets,
         "{NAME} in the commands is A, then B; repeatable: all combinations, above 16 those "
         "with every pair")
      ->type_name("NAME=A[,B...]")
      ->allow_extra_args(false);
  app.add_option(
         "--with", words.with,
         "a file or folder that git ignores, brought into the states of commits; repeatable")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_option("--build", words.build,
                 "a command such as 'pip install -e .', run in each state in an environment of its "
                 "own, on top of the packages of this one")
      ->type_name("COMMAND");
  app.add_option("--seed", words.seed,
                 "seed Python, NumPy and torch of rank r with N + r before the script begins")
      ->type_name("N");
  app.add_option(
         "--reuse", words.reuse,
         "take the reference's runs of an earlier folder of 'validate', if command, commit, "
         "executed files, versions and devices are the same")
      ->type_name("DIR");
  app.add_flag(
      "--coverage", words.has_coverage,
      "if the fault is not shown: run once more, and say which changed lines were executed");
  app.add_option("--stall", words.stall,
                 "seconds without progress of any rank, after which a job that hangs is ended")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_option("--config", words.config,
                 "a file in TOML that says the same in its section [validate]; options replace it")
      ->type_name("FILE");
  app.add_option("-o,--out", words.out, "folder of the files (default: runs/<utc>)")
      ->type_name("DIR");
  add_formats_of_files(app, words.formats);
  add_bisect_option(app, words.is_bisection);
}

/// Whether the command line has the option, or the command.
bool is_given(const std::string& name, const ValidateWords& words) {
  return name == "command" ? !words.job.empty() : words.app->count("--" + name) > 0;
}

using Texts = std::map<std::string, std::string*>;
using Lists = std::map<std::string, std::vector<std::string>*>;

SettingsSection section_of(const Texts& texts, const Lists& lists) {
  SettingsSection section{"validate", {}, {}};
  for (const auto& [name, word] : texts) section.settings.push_back(name);
  for (const auto& [name, list] : lists) section.lists.push_back(name);
  section.settings.insert(section.settings.end(), section.lists.begin(), section.lists.end());
  return section;
}

/// A command is a list of words, or one text.
std::vector<std::string> words_in(const FileSetting& setting) {
  const auto& [name, values] = setting;
  const bool is_text = name == "command" && values.size() == 1;
  return is_text ? CLI::detail::split_up(values.front()) : values;
}

/// What a file may say: the options, and the command. An option of the command line wins.
void take_config(ValidateWords& words) {
  if (words.config.empty()) return;
  std::string coverage;
  const Texts texts{
      {"range", &words.range},         {"before", &words.before}, {"after", &words.after},
      {"reference", &words.reference}, {"build", &words.build},   {"seed", &words.seed},
      {"reuse", &words.reuse},         {"stall", &words.stall},   {"coverage", &coverage}};
  const Lists lists{{"set", &words.sets}, {"with", &words.with}, {"command", &words.job}};
  const std::set<std::string> states{"range", "before", "after"};
  const bool has_states = !words.range.empty() || !words.before.empty() || !words.after.empty();
  for (const FileSetting& setting : read_settings(words.config, section_of(texts, lists))) {
    const auto& [name, values] = setting;
    if (states.contains(name) ? has_states : is_given(name, words)) continue;
    const auto text = texts.find(name);
    if (text == texts.end()) {
      *lists.at(name) = words_in(setting);
    } else {
      *text->second = values.front();
    }
  }
  if (!coverage.empty() && coverage != "true" && coverage != "false") {
    throw bad_value("coverage", coverage, "true or false");
  }
  words.has_coverage = words.has_coverage || coverage == "true";
}

/// Takes `A..B` apart.
void take_range(const std::string& range, ValidationRequest& request) {
  const std::size_t dots = range.find("..");
  request.before = range.substr(0, dots);
  if (dots != range.npos) request.after = range.substr(dots + 2);
  if (request.after.starts_with('.')) request.after.erase(0, 1);  // A...B
  if (dots != range.npos && !request.before.empty() && !request.after.empty()) return;
  throw bad_value("RANGE", range, "two commits, as main..fix");
}

ValidationRequest request_of(const ValidateWords& words) {
  ValidationRequest request;
  if (words.job.empty()) {
    throw bad_value("--", "",
                    "the command that trains: lockstep validate main..fix --reference "
                    "'python train.py' -- torchrun --nproc-per-node 2 train.py");
  }
  const bool has_states = !words.before.empty() || !words.after.empty();
  if (!words.range.empty() && has_states) {
    throw bad_value("RANGE", words.range, "absent with --before and --after");
  }
  if (!words.range.empty()) take_range(words.range, request);
  if (!words.before.empty()) request.before = words.before;
  if (!words.after.empty()) request.after = words.after;
  request.command = words.job;
  request.reference = CLI::detail::split_up(words.reference);
  if (request.reference.empty() && request.before.empty()) {
    throw bad_value("--reference", words.reference,
                    "the command that trains right, as 'python train.py', if there is no state "
                    "before");
  }
  request.reuse = words.reuse;
  if (!words.reuse.empty() && !std::filesystem::exists(words.reuse + "/record.json")) {
    throw bad_value("--reuse", words.reuse, "the folder of a run of 'lockstep validate'");
  }
  request.has_coverage = words.has_coverage;
  for (const std::string& text : words.sets) request.axes.push_back(command_axis(text));
  check_axes(request.axes, {request.command, request.reference});
  request.states = {words.with, words.build};
  if (!words.seed.empty()) {
    request.seed = whole_number<std::int64_t>("--seed", words.seed, 0, 0x7fffffff);
  }
  request.stall_s = static_cast<double>(whole_number<int>("--stall", words.stall, 1, 1'000'000));
  request.say = [](const std::string& line) { fmt::print(stderr, "lockstep: {}\n", line); };
  return request;
}

/// The command that does the same again: without what says only where and how it is reported.
std::vector<std::string> command_of(const ValidateWords& words) {
  std::vector<std::string> command{"lockstep", "validate"};
  if (!words.range.empty()) command.push_back(words.range);
  const std::vector<std::string> options = options_given(*words.app);
  command.insert(command.end(), options.begin(), options.end());
  command.emplace_back("--");
  command.insert(command.end(), words.job.begin(), words.job.end());
  return command;
}

ExitStatus run_validation(ValidateWords& words) {
  take_config(words);
  const std::vector<const Renderer*> renderers = find_renderers(words.formats);
  ValidationRequest request = request_of(words);
  RunRecord run;
  run.command = mask_command(command_of(words));
  run.environment = describe_environment(utc_now());
  run.environment.lockstep_version = LOCKSTEP_VERSION;
  const std::filesystem::path folder = make_run_folder(words.out, run);
  request.folder = folder.string();
  Validation validation = validate(request, LOCKSTEP_VERSION);
  run.comparisons = std::move(validation.comparisons);
  run.notes = std::move(validation.notes);
  run.planned = counts_of(run);
  save_record(folder, run);
  const Screen screen = screen_of(STDOUT_FILENO, Verbosity::overview, folder.string(), renderers);
  write_standard_output(render_screen(run, screen));
  const auto unwritten = write_reports(renderers, run, folder.string(), {}, stdout);
  if (unwritten) throw Error(*unwritten);
  if (validation.interrupted_by != 0) return exit_status_of_signal(validation.interrupted_by);
  return exit_status(run);
}

}  // namespace

Command validate_command() {
  auto words = std::make_shared<ValidateWords>();
  return {"validate", [words](CLI::App& app) { add_validate_options(app, *words); },
          [words] { return run_validation(*words); },
          [words](std::vector<std::string> job) { words->job = std::move(job); },
          [] {
            return OfferedWords{{"--format", format_names()}};
          }};
}

}  // namespace lockstep
