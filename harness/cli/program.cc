#include "harness/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "harness/cli/catalogue.h"
#include "harness/cli/compare_command.h"
#include "harness/cli/doctor_command.h"
#include "harness/cli/run_command.h"
#include "harness/launch/launch.h"
#include "reports/base/error.h"
#include "reports/base/exit_status.h"
#include "reports/formats/renderer.h"

namespace lockstep {

namespace {

/// Says what is wrong, if anybody can hear it: the exit status says it too.
void complain(const std::string& sentence) {
  std::fputs(("lockstep: " + sentence + "\n").c_str(), stderr);
}

/// A file that is opened as descriptor 1 would receive what is printed.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
  }
}

/// For options: an empty word is a mistake in a script, not a wish for the default.
std::string not_empty(const std::string& word) { return word.empty() ? "must not be empty" : ""; }

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const auto end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

template <class Number>
Number whole_number(const char* option, const std::string& text, Number lowest, Number highest) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < lowest ||
      value > highest) {
    throw bad_value(option, text, fmt::format("a whole number from {} to {}", lowest, highest));
  }
  return value;
}

std::vector<int> world_sizes(const std::string& text) {
  std::vector<int> sizes;
  for (const std::string& part : split(text, ',')) {
    const int size = whole_number("--ranks", part, 1, kMostRanks);
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

std::chrono::milliseconds duration(const std::string& text) {
  double seconds = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  constexpr double kLongest = 7 * 24 * 3600;
  if (failure != std::errc() || end != text.data() + text.size() || !(seconds >= 0.001) ||
      seconds > kLongest) {
    throw bad_value("--timeout", text, "seconds, from 0.001 to 604800 (a week)");
  }
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

AxisValue axis_choice(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw bad_value("--set", text, "axis=value, for example tiles=4");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// What was typed, before it is understood.
struct Words {
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
  std::string answer_limit = "20";
  std::string scenario;
  std::string folder;
  std::vector<std::string> folders;
  std::string table;
  std::string format = "console";
  bool markdown = false;
};

/// torch's CPU generator looks at the low 32 bits of a seed.
constexpr std::uint64_t kMostSeed = 0xffffffff;

constexpr int kMostRepetitions = 10'000;

std::string device_called(const std::string& name) {
  const std::vector<std::string>& known = known_devices();
  if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  throw unknown_name("device", name, known);
}

std::string backend_called(const std::string& name) {
  const std::vector<std::string> known = known_backends();
  if (std::find(known.begin(), known.end(), name) != known.end()) return name;
  throw unknown_name("backend", name, known);
}

Collectives collectives_called(const std::string& word) {
  const auto found = parse<Collectives>(word);
  if (found) return *found;
  throw unknown_name("value of --collectives", word, {"off", "log", "check"});
}

RunRequest request_of(const Words& words, const std::vector<std::string>& command) {
  RunRequest request;
  request.command = command;
  request.selection.names = words.scenarios;
  request.has_ranks = words.ranks.has_value();
  if (words.ranks) request.selection.world_sizes = world_sizes(*words.ranks);
  if (!words.steps.empty()) {
    request.selection.steps = whole_number<std::int64_t>("--steps", words.steps, 1, 1'000'000);
  }
  request.selection.seed = whole_number<std::uint64_t>("--seed", words.seed, 0, kMostSeed);
  for (const std::string& choice : words.set) {
    const AxisValue chosen = axis_choice(choice);
    for (const AxisValue& earlier : request.selection.axes) {
      if (earlier.axis == chosen.axis) {
        throw bad_value("--set", choice, "one value for each axis; this one has two");
      }
    }
    request.selection.axes.push_back(chosen);
  }
  request.selection.backend = backend_called(words.backend);
  if (!words.device.empty()) request.selection.device = device_called(words.device);
  request.selection.collectives = collectives_called(words.collectives);
  request.selection.matrix = words.matrix;
  if (!words.max_cells.empty()) {
    if (!words.matrix) throw bad_value("--max-cells", words.max_cells, "it beside --matrix only");
    request.selection.max_cells =
        whole_number<std::size_t>("--max-cells", words.max_cells, 1, 1'000'000);
  }
  request.selection.repetitions = whole_number("--repeat", words.repeat, 1, kMostRepetitions);
  request.limit = duration(words.timeout);
  request.launcher = words.launcher;
  request.cell_folder = words.cell_folder;
  request.cell_repetition =
      whole_number("--cell-repetition", words.cell_repetition, 1, kMostRepetitions);
  request.out = words.out;
  if (!words.formats.empty()) request.formats = split(words.formats, ',');
  if (!words.require.empty()) request.requirements = parse_requirements(words.require);
  return request;
}

std::string formats_in_words() {
  std::string text;
  for (const Renderer& renderer : renderers()) {
    text += (text.empty() ? "" : ", ") + renderer.format;
  }
  return text;
}

CLI::App* add_run(CLI::App& app, Words& words) {
  CLI::App* run = app.add_subcommand("run", "Run scenarios on real ranks, judge and report them");
  run->add_option("scenario", words.scenarios, "scenario or scenario/variant; none: all")
      ->type_name("");
  run->add_option("--ranks", words.ranks, "world sizes, 1 to 64, comma-separated")
      ->type_name("N[,N...]")
      ->default_str("2");
  run->add_option("--steps", words.steps, "training steps (default: the scenario's)")
      ->check(not_empty)
      ->type_name("N");
  run->add_option("--seed", words.seed, "added to every seed of the scenario; 0: as published")
      ->type_name("N")
      ->capture_default_str();
  run->add_option("--set", words.set, "value of an axis; can be repeated")
      ->type_name("AXIS=VALUE")
      ->allow_extra_args(false);
  run->add_option(
         "--backend", words.backend,
         "what connects the ranks: gloo, mpi (ranks that mpirun starts, unless --launcher says\n"
         "otherwise) or nccl (GPUs, one a rank)")
      ->check(not_empty)
      ->type_name("NAME")
      ->capture_default_str();
  run->add_option("--device", words.device,
                  "cpu, sim (virtual devices, in the host's memory) or cuda (default: the\n"
                  "scenario's); where a scenario or this machine lacks it, a cell is not run")
      ->check(not_empty)
      ->type_name("KIND");
  run->add_option(
         "--collectives", words.collectives,
         "log them; or check: hold each, before it is made, against what the other ranks of\n"
         "the machine called, so that what does not fit is an error of the call; or off:\n"
         "neither")
      ->check(not_empty)
      ->type_name("off|log|check")
      ->capture_default_str();
  run->add_flag("--matrix", words.matrix,
                "every value of every axis that --set does not choose; the report has a line a\n"
                "cell: what it came to");
  run->add_option("--max-cells", words.max_cells,
                  "with --matrix: a scenario with more cells in one world (1000) takes every pair\n"
                  "of values only, in cells that can be run; one that cannot is listed for each\n"
                  "reason")
      ->check(not_empty)
      ->type_name("N");
  run->add_option("--repeat", words.repeat, "run every cell N times and compare the runs")
      ->type_name("N")
      ->capture_default_str();
  run->add_option("--timeout", words.timeout,
                  "limit of a cell; cells that are meant to hang have a shorter one")
      ->type_name("SECONDS")
      ->capture_default_str();
  run->add_option(
         "--launcher", words.launcher,
         "start the ranks of a cell by 'mpirun -n {ranks}',\n"
         "'torchrun --no-python --nproc-per-node {ranks}', 'srun -n {ranks}' or the like;\n"
         "none: by itself, also where a launcher started this process to be one rank")
      ->check(not_empty)
      ->type_name("COMMAND");
  run->add_option("--cell-folder", words.cell_folder)->group("");
  run->add_option("--cell-repetition", words.cell_repetition)->group("");
  run->add_option("--out", words.out,
                  "folder for the files, new or empty (default: runs/<utc>, also runs/latest)")
      ->check(not_empty)
      ->type_name("DIR");
  run->add_option("--format", words.formats,
                  "also write report files, comma-separated: " + formats_in_words())
      ->check(not_empty)
      ->type_name("A[,B...]");
  run->add_option("--require", words.require,
                  "run nothing unless all of these are there: gloo, mpi, nccl, torchrun, mpirun,\n"
                  "srun, gpus=N; and fail where nothing ran")
      ->check(not_empty)
      ->type_name("A[,B...]");
  return run;
}

CLI::App* add_doctor(CLI::App& app, Words& words) {
  CLI::App* doctor =
      app.add_subcommand("doctor", "Say what is here, what is missing, and whether 'run' can work");
  doctor
      ->add_option("--timeout", words.answer_limit,
                   "how long a launcher or driver may take to answer")
      ->type_name("SECONDS")
      ->capture_default_str();
  return doctor;
}

CLI::App* add_report(CLI::App& app, Words& words) {
  CLI::App* report = app.add_subcommand("report", "Judge a run's files again and show the report");
  report->add_option("dir", words.folders, "folder of the run; several: one after the other")
      ->required()
      ->type_name("");
  report->add_option("--format", words.format, "one of " + formats_in_words())
      ->type_name("FORMAT")
      ->capture_default_str();
  return report;
}

CLI::App* add_compare(CLI::App& app, Words& words) {
  CLI::App* compare =
      app.add_subcommand("compare", "Hold a published table against a run, to the printed digit");
  compare->add_option("table", words.table, "published table, a CSV file")
      ->required()
      ->type_name("");
  compare->add_option("dir", words.folder, "folder of the run")->required()->type_name("");
  return compare;
}

/// `run` for "lockstep rnu": CLI11 would call it an unexpected argument.
void check_command(int argc, char** argv) {
  static const std::vector<std::string> commands{"list",   "show",    "run",
                                                 "report", "compare", "doctor"};
  if (argc < 2 || argv[1][0] == '-') return;
  if (std::find(commands.begin(), commands.end(), argv[1]) == commands.end()) {
    throw unknown_name("command", argv[1], commands);
  }
}

ExitStatus dispatch(const CLI::App& app, const Words& words,
                    const std::vector<std::string>& command) {
  if (app.got_subcommand("run")) return run_command(request_of(words, command), registry());
  if (app.got_subcommand("report")) return report_command(words.folders, words.format);
  if (app.got_subcommand("compare")) return compare_command(words.table, words.folder);
  if (app.got_subcommand("doctor")) return doctor_command(duration(words.answer_limit));
  if (app.got_subcommand("show")) {
    show(describe(find_scenario(registry(), words.scenario)));
  } else {
    show(words.markdown ? list_as_markdown(registry()) : list_as_text(registry()));
  }
  return ExitStatus::as_expected;
}

/// What --help or --version prints.
ExitStatus show_answer(const CLI::App& app, const CLI::ParseError& question) {
  std::ostringstream text;
  app.exit(question, text, text);
  show(text.str());
  return ExitStatus::as_expected;
}

ExitStatus parse_and_dispatch(int argc, char** argv) {
  check_command(argc, argv);
  Words words;
  CLI::App app(
      "Shows whether the ranks of a distributed training job stay in lockstep, and if not,\n"
      "the first place where they part and why.",
      "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION ", torch " LOCKSTEP_TORCH_VERSION);
  app.require_subcommand(1);
  const std::string exit_statuses = exit_statuses_as_text();
  app.footer(exit_statuses);
  CLI::App* list = app.add_subcommand("list", "List the scenarios");
  list->add_flag("--markdown", words.markdown, "as the table of the README");
  CLI::App* show_one = app.add_subcommand("show", "Say everything about one scenario");
  show_one->add_option("scenario", words.scenario, "its id")->required()->type_name("");
  add_run(app, words)->footer(exit_statuses);
  add_report(app, words)->footer(exit_statuses);
  add_compare(app, words)->footer(exit_statuses);
  add_doctor(app, words)->footer(exit_statuses);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return show_answer(app, error);
    complain(std::string(error.what()) + "\nSee 'lockstep --help' or 'lockstep COMMAND --help'.");
    return ExitStatus::usage;
  }
  return dispatch(app, words, std::vector<std::string>(argv, argv + argc));
}

}  // namespace

namespace {

ExitStatus answer(int argc, char** argv) {
  try {
    return parse_and_dispatch(argc, argv);
  } catch (const Error& error) {
    complain(error.what());
    return exit_status(error.kind());
  } catch (const std::filesystem::filesystem_error& error) {
    complain(unreadable(error.path1().string(), error.code().message()).what());
    return ExitStatus::usage;
  } catch (const std::bad_alloc&) {
    complain(
        "There is not enough memory to go on, so nothing was decided. Raise 'ulimit -v', or judge "
        "a run with fewer steps.");
    return ExitStatus::undecided;
  } catch (const std::exception& error) {
    complain(std::string("a defect: ") + error.what());
    return ExitStatus::defect;
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  open_standard_streams();
  // A file that may not grow is an error of the write, with a sentence.
  std::signal(SIGXFSZ, SIG_IGN);
  return static_cast<int>(answer(argc, argv));
}

}  // namespace lockstep
