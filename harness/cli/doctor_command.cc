#include "harness/cli/doctor_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
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
#include "reports/base/status_line.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Time for rehearsals of `limit` over gloo, two MPIs and NCCL, the checks before them, and
/// starting torch from a slow disk.
std::chrono::milliseconds limit_of_catalogue(std::chrono::milliseconds limit) {
  return 12 * limit + std::chrono::minutes(1);
}

/// How the catalogue ended without an answer.
std::string failure_of(const Probe& asked) {
  const std::string said = first_line(asked.output);
  return said.empty() ? exit_in_words(asked.end) : exit_in_words(asked.end) + ": " + said;
}

/// Whether a catalogue answered: it ended by itself, and the loader had started it.
bool has_answered(const Probe& asked) {
  constexpr int kNotStarted = 127;
  const bool has_ended = asked.end.kind == ExitKind::finished || asked.end.kind == ExitKind::exited;
  return has_ended && asked.end.code != kNotStarted;
}

/// The catalogue's answer, or a substitute for it.
struct CatalogueAnswer {
  std::string conclusion;
  std::string findings;
  ExitStatus status = ExitStatus::failed;
};

CatalogueAnswer no_ranks(const std::string& problem) {
  return {paragraph("", run_cannot_work(problem)), "", ExitStatus::failed};
}

/// Checks the folder in which the ranks of `run` would start.
std::string fault_of_folder() {
  try {
    require_current_folder();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

CatalogueAnswer ask_catalogue(const CatalogueProgram& catalogue, std::chrono::milliseconds limit) {
  const std::string gone = fault_of_folder();
  if (!gone.empty()) return no_ranks(gone);
  let_loader_find_torch(catalogue);
  const Probe asked =
      probe_program({catalogue.path, "doctor", kRanksOnly, "--timeout",
                     fmt::format("{}", std::chrono::duration<double>(limit).count())},
                    limit_of_catalogue(limit));
  if (!has_answered(asked)) {
    return no_ranks(fmt::format("{} {}", catalogue.path.string(), failure_of(asked)));
  }
  const auto status = static_cast<ExitStatus>(asked.end.code);
  const auto gap = asked.output.find("\n\n");
  if (gap == std::string::npos) return {asked.output, "", status};
  return {asked.output.substr(0, gap + 1), asked.output.substr(gap + 2), status};
}

/// A program without a catalogue is complete: it reads and compares runs of others.
CatalogueAnswer say_untried() {
  DoctorSheet sheet;
  sheet.begin("catalogue");
  sheet.say(fmt::format("none: there is no {}", catalogue_path().string()));
  sheet.advise(
      "pip install 'lockstep-watch[catalogue]', build Lockstep from its sources (ci/demo), or set "
      "LOCKSTEP_CATALOGUE to a program with scenarios");
  const std::string problem = fault_of_machine();
  sheet.conclude(
      "'lockstep watch', 'report' and 'compare' can work here. 'lockstep run' was not tested, "
      "because there is no catalogue of scenarios.");
  if (!problem.empty()) sheet.conclude("Ranks could not run here anyway: " + problem);
  return {sheet.conclusion(), sheet.findings(),
          problem.empty() ? ExitStatus::as_expected : ExitStatus::failed};
}

/// The catalogue, or why it cannot be started.
struct FoundCatalogue {
  std::optional<CatalogueProgram> program;
  std::string problem;
};

FoundCatalogue look_for_catalogue() {
  if (!is_catalogue_expected()) return {};
  try {
    return {find_catalogue(), ""};
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::unmet) throw;
    return {std::nullopt, error.what()};
  }
}

CatalogueAnswer answer_of(const FoundCatalogue& catalogue, std::chrono::milliseconds limit) {
  if (catalogue.program) return ask_catalogue(*catalogue.program, limit);
  return catalogue.problem.empty() ? say_untried() : no_ranks(catalogue.problem);
}

/// Prints nothing before the conclusion is known, because it comes first.
ExitStatus examine(std::chrono::milliseconds limit) {
  const FoundCatalogue catalogue = look_for_catalogue();
  DoctorSheet sheet;
  CatalogueAnswer answer;
  {
    StatusLine line;
    line.show("querying drivers, launchers and Python");
    say_machine(sheet, limit, catalogue.program ? catalogue.program->torch_library : fs::path());
    line.show("querying the catalogue");
    answer = answer_of(catalogue, limit);
  }
  write_standard_output(answer.conclusion + "\n" + sheet.findings() + answer.findings);
  return answer.status;
}

struct DoctorWords {
  std::string limit = "20";
  bool ranks_only = false;
  bool one_rank_of_mpi = false;
};

void add_doctor_options(CLI::App& app, DoctorWords& words) {
  app.add_option("--timeout", words.limit, "how long a launcher or driver may take to answer")
      ->type_name("SECONDS")
      ->capture_default_str();
  app.add_flag(kRanksOnly, words.ranks_only)->group("");
  app.add_flag(kOneRankOfMpi, words.one_rank_of_mpi)->group("");
}

}  // namespace

Command doctor_command() {
  return doctor_command([](const DoctorQuestion& question) { return examine(question.limit); });
}

Command doctor_command(std::function<ExitStatus(const DoctorQuestion&)> body) {
  auto words = std::make_shared<DoctorWords>();
  return {"doctor", [words](CLI::App& app) { add_doctor_options(app, *words); },
          [words, body = std::move(body)] {
            return body({duration(words->limit), words->ranks_only, words->one_rank_of_mpi});
          }};
}

}  // namespace lockstep
