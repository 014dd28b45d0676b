#include "harness/run/scenario_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "harness/cli/bisection.h"
#include "harness/cli/option_values.h"
#include "harness/cli/screen_options.h"
#include "harness/cli/standard_output.h"
#include "harness/launch/launch.h"
#include "harness/listing/catalogue_json.h"
#include "harness/listing/catalogue_markdown.h"
#include "harness/listing/scenario_filter.h"
#include "harness/listing/scenario_list.h"
#include "harness/listing/scenario_sheet.h"
#include "harness/listing/scenario_words.h"
#include "harness/plan/wanted.h"
#include "harness/run/capabilities.h"
#include "harness/run/doctor.h"
#include "harness/run/jobs.h"
#include "harness/run/run_command.h"
#include "reports/base/error.h"
#include "reports/base/terminal.h"
#include "reports/formats/renderer.h"
#include "reports/record/limits.h"

namespace lockstep {

namespace {

/// For completions: ids, and id/variant.
std::vector<std::string> scenario_words(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> words;
  for (const Scenario& scenario : scenarios) {
    words.push_back(scenario.id);
    for (const Variant& variant : scenario.variants) {
      words.push_back(scenario.id + "/" + variant.name);
    }
  }
  return words;
}

/// The same for `list`: classes and ids.
std::vector<std::string> filter_words(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> words;
  for (const Scenario& scenario : scenarios) {
    words.push_back(scenario.id);
    if (std::find(words.begin(), words.end(), class_of(scenario)) == words.end()) {
      words.push_back(class_of(scenario));
    }
  }
  return words;
}

std::vector<std::string> requirement_words() {
  std::vector<std::string> words = all_names<Backend>();
  for (const std::string& launcher : known_launchers()) words.push_back(launcher);
  return words;
}

int as_many_as_gpus() {
  const Capability gpus = find_gpu_capability(kAnswerLimit);
  if (gpus.is_there) return std::min(gpus.count, kMostRanksOfCell);
  throw Error(Error::Kind::usage,
              fmt::format("--ranks gpus: there is no GPU: {}. Remedy: {}", gpus.text, gpus.remedy));
}

std::vector<int> world_sizes(const std::string& text) {
  std::vector<int> sizes;
  for (const std::string& part : split(text, ',')) {
    const int size =
        part == "gpus" ? as_many_as_gpus() : whole_number("--ranks", part, 1, kMostRanksOfCell);
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

AxisValue axis_choice(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw bad_value("--set", text, "axis=value, for example tiles=4");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// The unparsed arguments of `run`.
struct RunWords {
  std::vector<std::string> scenarios;
  std::optional<std::string> ranks;
  std::string steps;
  std::string seed = "0";
  std::vector<std::string> set;
  std::string backend = "gloo";
  std::string device;
  std::string collectives = "log";
  bool matrix = false;
  std::string max_cells;
  std::string repeat = "1";
  std::string timeout = "60";
  std::string launcher;
  std::string cell_folder;
  std::string cell_repetition = "1";
  std::string out;
  std::string formats;
  std::string require;
  std::string known;
  std::string jobs;
  VerbosityFlags verbosity;
  bool fails_fast = false;
  bool is_group_readable = false;
  bool is_bisection = false;
};

/// torch's CPU generator uses the low 32 bits of a seed.
constexpr std::uint64_t kMostSeed = 0xffffffff;

constexpr int kMostRepetitions = 10'000;

DeviceKind device_called(const std::string& word) {
  if (const auto found = parse<DeviceKind>(word)) return *found;
  throw bad_value("--device", word,
                  fmt::format("one of {}", fmt::join(all_names<DeviceKind>(), ", ")));
}

Backend backend_called(const std::string& word) {
  if (const auto found = parse<Backend>(word)) return *found;
  throw unknown_name("backend", word, all_names<Backend>());
}

Collectives collectives_called(const std::string& word) {
  const auto found = parse<Collectives>(word);
  if (found) return *found;
  throw unknown_name("value of --collectives", word, {"off", "log", "check"});
}

/// Of `--set`.
std::vector<AxisValue> axis_choices(const std::vector<std::string>& words) {
  std::vector<AxisValue> choices;
  for (const std::string& word : words) {
    AxisValue chosen = axis_choice(word);
    for (const AxisValue& earlier : choices) {
      if (earlier.axis == chosen.axis) {
        throw bad_value("--set", word, "one value for each axis; this one has two");
      }
    }
    choices.push_back(std::move(chosen));
  }
  return choices;
}

RunRequest request_of(const RunWords& words, const std::vector<std::string>& command) {
  RunRequest request;
  request.command = command;
  request.selection.names = words.scenarios;
  request.has_ranks = words.ranks.has_value();
  if (words.ranks) request.selection.world_sizes = world_sizes(*words.ranks);
  if (!words.steps.empty()) {
    request.selection.steps = whole_number<std::int64_t>("--steps", words.steps, 1, 1'000'000);
  }
  request.selection.seed = whole_number<std::uint64_t>("--seed", words.seed, 0, kMostSeed);
  request.selection.axes = axis_choices(words.set);
  request.selection.backend = backend_called(words.backend);
  if (!words.device.empty()) request.selection.device = device_called(words.device);
  request.selection.collectives = collectives_called(words.collectives);
  request.selection.matrix = words.matrix;
  if (!words.max_cells.empty()) {
    if (!words.matrix) throw bad_value("--max-cells", words.max_cells, "it together with --matrix");
    request.selection.max_cells =
        whole_number<std::size_t>("--max-cells", words.max_cells, 1, 1'000'000);
  }
  request.selection.repetitions = whole_number("--repeat", words.repeat, 1, kMostRepetitions);
  request.limit = duration(words.timeout);
  if (!words.jobs.empty()) request.jobs = whole_number("--jobs", words.jobs, 1, kMostJobs);
  request.launcher = words.launcher;
  request.cell_folder = words.cell_folder;
  request.cell_repetition =
      whole_number("--cell-repetition", words.cell_repetition, 1, kMostRepetitions);
  request.out = words.out;
  if (words.is_group_readable) request.readers = Readers::group;
  if (!words.formats.empty()) request.formats = split(words.formats, ',');
  if (!words.known.empty()) request.known = KnownFindings::read(words.known);
  if (!words.require.empty()) request.requirements = parse_requirements(words.require);
  request.verbosity = verbosity_of(words.verbosity);
  request.fails_fast = words.fails_fast;
  return request;
}

void add_cell_options(CLI::App& run, RunWords& words) {
  run.option_defaults()->group("Cells");
  run.add_option(
         "SCENARIO", words.scenarios,
         "scenario or scenario/variant, or a pattern of them: 'loss*/all-reduce*'; none: all")
      ->type_name("");
  run.add_option("--ranks", words.ranks,
                 "world sizes, 1 to 64, comma-separated; gpus: as many as GPUs")
      ->type_name("N[,N...]")
      ->default_str("2");
  run.add_option("--steps", words.steps, "training steps (default: the scenario's)")
      ->check(complaint_if_empty)
      ->type_name("N");
  run.add_option("--seed", words.seed, "added to every seed of the scenario; 0: as published")
      ->type_name("N")
      ->capture_default_str();
  run.add_option("--set", words.set, "value of an axis; can be repeated")
      ->type_name("AXIS=VALUE")
      ->allow_extra_args(false);
  run.add_option(
         "--backend", words.backend,
         "transport between the ranks: gloo, mpi (mpirun starts the ranks, unless --launcher\n"
         "names another) or nccl (one GPU per rank)")
      ->check(complaint_if_empty)
      ->type_name("NAME")
      ->capture_default_str();
  run.add_option("--device", words.device,
                 "cpu, sim (virtual devices, in the host's memory) or cuda (default: the\n"
                 "scenario's); a cell is not run if its scenario or this machine lacks the device")
      ->check(complaint_if_empty)
      ->type_name("KIND");
  run.add_option(
         "--collectives", words.collectives,
         "log: record every call; check: also compare each call, before it is made, with those\n"
         "of the other ranks on this machine, and raise an error if they do not match; off:\n"
         "neither")
      ->check(complaint_if_empty)
      ->type_name("off|log|check")
      ->capture_default_str();
  run.add_flag("--matrix", words.matrix,
               "every value of every axis that --set does not fix; the report has one line per\n"
               "cell");
  run.add_option("--max-cells", words.max_cells,
                 "with --matrix: the limit of cells per scenario and world size (1000). A larger\n"
                 "matrix is reduced to cells that cover every pair of axis values; if these are\n"
                 "too many, every value. Cells that cannot be run are listed once per reason")
      ->check(complaint_if_empty)
      ->type_name("N");
}

void add_process_options(CLI::App& run, RunWords& words) {
  run.option_defaults()->group("Processes");
  run.add_option("--repeat", words.repeat, "run every cell N times and compare the runs")
      ->type_name("N")
      ->capture_default_str();
  run.add_option("--jobs", words.jobs,
                 "cells at a time, 1 to 64 (default: 4 x cores / ranks, at least 2, and no more\n"
                 "than fit into memory; 1 with --launcher); the findings do not depend on it")
      ->check(complaint_if_empty)
      ->type_name("N");
  run.add_option("--timeout", words.timeout,
                 "limit of a cell; a cell that is meant to hang ends earlier, once its ranks make\n"
                 "no progress")
      ->type_name("SECONDS")
      ->capture_default_str();
  run.add_option("--launcher", words.launcher,
                 "start the ranks of a cell by 'mpirun -n {ranks}',\n"
                 "'torchrun --no-python --nproc-per-node {ranks}', 'srun -n {ranks}' or the like;\n"
                 "none: Lockstep starts them, even if a launcher started this process as a rank")
      ->check(complaint_if_empty)
      ->type_name("COMMAND");
  run.add_option("--cell-folder", words.cell_folder)->group("");
  run.add_option("--cell-repetition", words.cell_repetition)->group("");
}

void add_report_options(CLI::App& run, RunWords& words) {
  run.option_defaults()->group("Report");
  run.add_option("-o,--out", words.out,
                 "folder for the files, new or empty (default: runs/<utc>, also runs/latest)")
      ->check(complaint_if_empty)
      ->type_name("DIR");
  run.add_flag("--group-readable", words.is_group_readable,
               "the group may read these files, too (default: their owner alone)");
  run.add_option("--format", words.formats,
                 "also write report files, comma-separated: " + formats_in_words())
      ->check(complaint_if_empty)
      ->type_name("A[,B...]");
  run.add_option(
         "--require", words.require,
         "run nothing unless all of these are available: gloo, mpi, nccl, torchrun, mpirun,\n"
         "srun, gpus=N; and fail if nothing ran")
      ->check(complaint_if_empty)
      ->type_name("A[,B...]");
  run.add_option("--known", words.known, "findings listed in this file do not fail")
      ->check(complaint_if_empty)
      ->type_name("FILE");
  add_bisect_option(run, words.is_bisection);
  add_verbosity_options(run, words.verbosity,
                        "print a line per variant with its symptom; -vv: every finding, table and "
                        "cost");
  run.add_flag("-x,--fail-fast", words.fails_fast,
               "stop at the first failure; the remaining cells are NOT RUN");
}

void add_options(CLI::App& run, RunWords& words) {
  add_cell_options(run, words);
  add_process_options(run, words);
  add_report_options(run, words);
}

Command run_scenarios(const std::vector<Scenario>& scenarios, std::vector<std::string> typed) {
  auto words = std::make_shared<RunWords>();
  return {"run",
          [words](CLI::App& app) { add_options(app, *words); },
          [words, &scenarios, typed = std::move(typed)] {
            return run_command(request_of(*words, typed), scenarios);
          },
          {},
          [&scenarios] {
            return OfferedWords{{"SCENARIO", scenario_words(scenarios)},
                                {"--backend", all_names<Backend>()},
                                {"--device", {"cpu", "cuda", "sim"}},
                                {"--collectives", {"check", "log", "off"}},
                                {"--format", format_names()},
                                {"--require", requirement_words()}};
          }};
}

struct ListWords {
  std::vector<std::string> filters;
  bool is_verbose = false;
  std::string format = "text";
};

void add_list_options(CLI::App& list, ListWords& words) {
  list.add_option("FILTER", words.filters,
                  "class, id, pattern ('loss*') or a word of the summary; several: those that\n"
                  "match any; none: all")
      ->type_name("");
  list.add_flag("-v,--verbose", words.is_verbose, "also their variants");
  list.add_option(
          "--format", words.format,
          "text (never cut in a pipe), json, or markdown: the table of docs/commands.md; with\n"
          "-v docs/catalogue.md")
      ->type_name("FORMAT")
      ->capture_default_str();
}

std::string list_as_text(const ScenarioList& scenarios, bool is_verbose) {
  const std::size_t width = terminal_of(STDOUT_FILENO).width;
  if (is_verbose) return list_with_variants(scenarios, width);
  if (::isatty(STDOUT_FILENO) == 0) return list_as_table(scenarios, std::nullopt);
  return list_as_table(scenarios, width) + "\n" + list_summary(scenarios, width);
}

std::string list_in_format(const ScenarioList& scenarios, const ListWords& words) {
  if (words.format == "text") return list_as_text(scenarios, words.is_verbose);
  if (words.format == "json") return catalogue_as_json(scenarios);
  if (words.format != "markdown") {
    throw unknown_name("format of 'list'", words.format, {"text", "json", "markdown"});
  }
  return words.is_verbose ? catalogue_as_markdown(scenarios) : list_as_markdown(scenarios);
}

Command list_scenarios(const std::vector<Scenario>& scenarios) {
  auto words = std::make_shared<ListWords>();
  return {"list",
          [words](CLI::App& app) { add_list_options(app, *words); },
          [words, &scenarios] {
            const ScenarioList selected = filter_scenarios(scenarios, words->filters);
            write_standard_output(list_in_format(selected, *words));
            return ExitStatus::as_expected;
          },
          {},
          [&scenarios] {
            return OfferedWords{{"FILTER", filter_words(scenarios)},
                                {"--format", {"json", "markdown", "text"}}};
          }};
}

struct ShowWords {
  std::string name;
  std::string format = "text";
};

void add_show_options(CLI::App& show, ShowWords& words) {
  show.add_option("SCENARIO", words.name,
                  "its id, or id/variant; patterns show all that match: 'loss*', 'ID/*'")
      ->required()
      ->type_name("");
  show.add_option("--format", words.format, "text or json")
      ->type_name("FORMAT")
      ->capture_default_str();
}

/// The sheet of each scenario, or of each variant if variants were given.
std::string sheets_of(const std::vector<Wanted>& wanted, bool has_variants) {
  const std::size_t width = terminal_of(STDOUT_FILENO).width;
  std::string text;
  const auto add = [&](const std::string& sheet) { text += (text.empty() ? "" : "\n\n") + sheet; };
  for (const Wanted& one : wanted) {
    if (!has_variants) add(scenario_sheet(*one.scenario, width));
    for (const Variant& variant : one.scenario->variants) {
      const bool is_shown = has_variants && one.variants.contains(variant.name);
      if (is_shown) add(variant_sheet(*one.scenario, variant, width));
    }
  }
  return text;
}

Command show_scenario(const std::vector<Scenario>& scenarios) {
  auto words = std::make_shared<ShowWords>();
  return {"show",
          [words](CLI::App& app) { add_show_options(app, *words); },
          [words, &scenarios] {
            const std::vector<Wanted> wanted = wanted_of(scenarios, {words->name});
            if (words->format != "text" && words->format != "json") {
              throw unknown_name("format of 'show'", words->format, {"text", "json"});
            }
            const bool has_variants = words->name.find('/') != std::string::npos;
            write_standard_output(words->format == "json" ? catalogue_as_json(wanted)
                                                          : sheets_of(wanted, has_variants));
            return ExitStatus::as_expected;
          },
          {},
          [&scenarios] {
            return OfferedWords{{"SCENARIO", scenario_words(scenarios)},
                                {"--format", {"json", "text"}}};
          }};
}

}  // namespace

std::vector<Command> scenario_commands(const std::vector<Scenario>& scenarios,
                                       const std::vector<std::string>& typed) {
  return {list_scenarios(scenarios), show_scenario(scenarios), run_scenarios(scenarios, typed),
          doctor_with_ranks()};
}

}  // namespace lockstep
