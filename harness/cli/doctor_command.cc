#include "harness/cli/doctor_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "harness/cli/catalogue_program.h"
#include "harness/cli/doctor_sheet.h"
#include "harness/cli/option_values.h"
#include "harness/cli/paragraph.h"
#include "harness/cli/standard_output.h"
#include "harness/launch/probe.h"
#include "reports/base/current_folder.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// A rehearsal of `limit`, what is asked before it, and the start of torch from a slow disk.
std::chrono::milliseconds limit_of_catalogue(std::chrono::milliseconds limit) {
  return 4 * limit + std::chrono::minutes(1);
}

/// How the catalogue ended without an answer.
std::string failure_of(const Probe& asked) {
  const std::string said = first_line(asked.output);
  return said.empty() ? exit_in_words(asked.end) : exit_in_words(asked.end) + ": " + said;
}

/// Whether a catalogue came to an answer: it ended by itself, and the loader did let it start.
bool has_answered(const Probe& asked) {
  constexpr int kNotStarted = 127;
  const bool has_ended = asked.end.kind == ExitKind::finished || asked.end.kind == ExitKind::exited;
  return has_ended && asked.end.code != kNotStarted;
}

ExitStatus conclude_without_ranks(const std::string& problem) {
  write_standard_output("\n" + paragraph("", run_cannot_work(problem)));
  return ExitStatus::failed;
}

/// Where the ranks of `run` would start.
std::string fault_of_folder() {
  try {
    require_current_folder();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ExitStatus ask_catalogue(std::chrono::milliseconds limit) {
  const std::string gone = fault_of_folder();
  if (!gone.empty()) return conclude_without_ranks(gone);
  const CatalogueProgram catalogue = find_catalogue();
  const Probe asked =
      probe_program({catalogue.path, "doctor", kRanksOnly, "--timeout",
                     fmt::format("{}", std::chrono::duration<double>(limit).count())},
                    limit_of_catalogue(limit));
  if (!has_answered(asked)) {
    return conclude_without_ranks(fmt::format("{} {}", catalogue.path.string(), failure_of(asked)));
  }
  write_standard_output(asked.output);
  return static_cast<ExitStatus>(asked.end.code);
}

/// A program without a catalogue is whole: it reads and compares runs of others.
ExitStatus say_untried() {
  DoctorSheet sheet;
  sheet.begin("catalogue");
  sheet.say(fmt::format("none: there is no {}", catalogue_path().string()));
  sheet.advise(
      "install Lockstep with torch, or set LOCKSTEP_CATALOGUE to a program with scenarios");
  const std::string problem = fault_of_machine();
  sheet.conclude(
      "'lockstep report' and 'lockstep compare' can work here. Whether 'lockstep run' "
      "can was not tried: there is no catalogue, so no two ranks met.");
  if (!problem.empty()) sheet.conclude("Ranks could not be run in any case: " + problem);
  write_standard_output(sheet.text());
  return problem.empty() ? ExitStatus::as_expected : ExitStatus::failed;
}

ExitStatus examine(std::chrono::milliseconds limit) {
  DoctorSheet sheet;
  say_machine(sheet, limit);
  write_standard_output(sheet.text());
  if (!is_catalogue_expected()) return say_untried();
  try {
    return ask_catalogue(limit);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::unmet) throw;
    return conclude_without_ranks(error.what());
  }
}

struct DoctorWords {
  std::string limit = "20";
  bool ranks_only = false;
};

void add_doctor_options(CLI::App& app, DoctorWords& words) {
  app.add_option("--timeout", words.limit, "how long a launcher or driver may take to answer")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_flag(kRanksOnly, words.ranks_only)->group("");
}

}  // namespace

Command doctor_command() {
  return doctor_command([](std::chrono::milliseconds limit, bool) { return examine(limit); });
}

Command doctor_command(std::function<ExitStatus(std::chrono::milliseconds, bool)> body) {
  auto words = std::make_shared<DoctorWords>();
  return {
      "doctor", [words](CLI::App& app) { add_doctor_options(app, *words); },
      [words, body = std::move(body)] { return body(duration(words->limit), words->ranks_only); }};
}

}  // namespace lockstep
