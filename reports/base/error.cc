#include "reports/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <new>

#include "reports/base/nearest_name.h"
#include "reports/base/plain_text.h"
#include "reports/base/usage_error.h"

namespace lockstep {
namespace {

std::string without_controls(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c))) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result;
}

// Keeps a sentence intact, whatever a file or command line contained.
std::string shown(std::string_view text) {
  std::size_t length = std::min<std::size_t>(text.size(), 80);
  const auto inside_character = [&](std::size_t at) { return (text[at] & 0xc0) == 0x80; };
  while (length > 0 && length < text.size() && inside_character(length)) --length;
  const std::string result = without_controls(text.substr(0, length));
  return length < text.size() ? result + "..." : result;
}

// At most three lines of names; omitted ones are counted.
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kWidth = 96;
  constexpr int kMostLines = 3;
  std::string result;
  std::size_t width = 0;
  int lines = 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string item = shown(names[i]) + (i + 1 < names.size() ? "," : "");
    if (i > 0 && width + 1 + item.size() > kWidth) {
      if (lines == kMostLines) return fmt::format("{} and {} more", result, names.size() - i);
      ++lines;
      width = 0;
      result += "\n ";
    }
    result += (i > 0 ? " " : "") + item;
    width += 1 + item.size();
  }
  return result;
}

Error usage(const std::string& text) { return {Error::Kind::usage, text}; }

// An empty path would leave a hole in the sentence.
std::string shown_path(std::string_view path) {
  return path.empty() ? "''" : without_controls(path);
}

// " Did you mean 'x'?", or nothing.
std::string offer(std::string_view given, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(given, known);
  return nearest.empty() ? "" : fmt::format(" Did you mean '{}'?", nearest);
}

/// Those of `known` that contain `given`; of one or two letters too many do.
std::vector<std::string> names_with(std::string_view given, const std::vector<std::string>& known) {
  constexpr std::size_t kLeast = 3;
  std::vector<std::string> names;
  for (const std::string& name : known) {
    if (given.size() >= kLeast && name.find(given) != std::string::npos) names.push_back(name);
  }
  return names;
}

}  // namespace

Error caught_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::filesystem::filesystem_error& error) {
    return unreadable(error.path1().string(), error.code().message());
  } catch (const std::bad_alloc&) {
    return {Error::Kind::machine,
            "There is not enough memory to go on, so nothing was decided. Raise 'ulimit -v', or "
            "judge a run with fewer steps."};
  } catch (const std::exception& error) {
    return {Error::Kind::internal, std::string("a defect: ") + error.what()};
  } catch (...) {
    return {Error::Kind::internal, "a defect: an exception that is not a std::exception"};
  }
}

Error unknown_name(std::string_view what, std::string_view given,
                   const std::vector<std::string>& known) {
  const std::string start = fmt::format("There is no {} '{}'", what, shown(given));
  if (known.empty()) return usage(fmt::format("{}: none is known.", start));
  const std::string nearest = nearest_name(given, known);
  if (!nearest.empty()) return usage(fmt::format("{}. Did you mean '{}'?", start, nearest));
  const std::vector<std::string> alike = names_with(given, known);
  if (!alike.empty()) return usage(fmt::format("{}. Names with it:\n  {}.", start, listed(alike)));
  return usage(fmt::format("{}. Known:\n  {}.", start, listed(known)));
}

Error unknown_option(std::string_view command, std::string_view given,
                     const std::vector<std::string>& known) {
  const bool is_a_letter = given.size() <= 2;  // "-x" is near to every other letter
  const std::string offered = is_a_letter ? "" : offer(given, known);
  return usage(
      fmt::format("'{}' has no option '{}'.{}", shown(command), shown(given),
                  offered.empty() ? fmt::format(" See '{} --help'.", shown(command)) : offered));
}

Error unexpected_words(std::string_view command, const std::vector<std::string>& extra,
                       std::string_view usage_line) {
  std::vector<std::string> quoted;
  for (const std::string& word : extra) quoted.push_back(fmt::format("'{}'", word));
  return usage(
      fmt::format("'{}' does not expect {}. {}", shown(command), listed(quoted), usage_line));
}

Error wrong_arguments(std::string_view command, std::string_view what,
                      std::string_view usage_line) {
  return usage(
      fmt::format("{}.\n{}\nSee '{} --help'.", without_controls(what), usage_line, shown(command)));
}

Error nothing_matches(std::string_view what, std::string_view pattern,
                      const std::vector<std::string>& known) {
  const std::string offered = offer(pattern, known);
  return usage(
      fmt::format("No {} matches '{}'.{}", what, shown(pattern),
                  offered.empty() ? fmt::format(" Known:\n  {}.", listed(known)) : offered));
}

Error bad_value(std::string_view option, std::string_view given, std::string_view wanted) {
  return usage(fmt::format("{} cannot be '{}': give {}.", option, shown(given), wanted));
}

Error malformed(std::string_view path, std::int64_t line, std::int64_t column,
                std::string_view expected, std::string_view found) {
  std::string place = without_controls(path);
  if (line > 0) place += fmt::format(":{}", line);
  if (line > 0 && column > 0) place += fmt::format(":{}", column);
  const std::string seen = found.empty() ? "nothing" : fmt::format("'{}'", shown(found));
  return usage(fmt::format("{}: expected {}, found {}.", place, expected, seen));
}

Error other_version(std::string_view path, std::string_view what, std::string_view found,
                    std::string_view own) {
  const std::string version =
      found.empty() ? "without a version" : fmt::format("of version '{}'", shown(found));
  return usage(fmt::format(
      "{} is {} {}, but this program reads version {}: use the Lockstep that wrote it, or record "
      "the run again.",
      without_controls(path), what, version, own));
}

Error unreadable(std::string_view path, std::string_view why) {
  return unreadable(path, why, "Give a path that can be read");
}

Error unreadable(std::string_view path, std::string_view why, std::string_view remedy) {
  return usage(fmt::format("Cannot read {}: {}. {}.", shown_path(path), why, remedy));
}

Error unwritable(std::string_view path, std::string_view why) {
  return unwritable(path, why, "Give a place that can be written");
}

Error unwritable(std::string_view path, std::string_view why, std::string_view remedy) {
  return usage(fmt::format("Cannot write {}: {}. {}.", shown_path(path), why, remedy));
}

Error closed_by_job(std::string_view path) {
  return unwritable(path, "the job closed its descriptor",
                    "A job that closes descriptors it did not open is not observed from there on");
}

Error unwritable_output(std::string_view why) {
  return usage(fmt::format("Cannot write to standard output: {}.", why));
}

Error unremovable(std::string_view folder, std::string_view why) {
  return usage(
      fmt::format("Cannot remove {}: {}. Remove it as a user who may.", shown_path(folder), why));
}

Error unpackable(std::string_view folder, std::string_view why, std::string_view remedy) {
  return usage(fmt::format("Cannot pack {}: {}. {}.", shown_path(folder), why, remedy));
}

Error swapped_arguments(std::string_view run, std::string_view table) {
  return usage(fmt::format(
      "{0} is the folder of a run and {1} is a table: the table comes first. Give: compare {1} {0}",
      without_controls(run), without_controls(table)));
}

Error two_runs(std::string_view first, std::string_view second) {
  return usage(
      fmt::format("{} and {} are both folders of runs. Give a published table first: a CSV file, "
                  "or the name of one in reference/published.",
                  without_controls(first), without_controls(second)));
}

std::string unmet_requirement(std::string_view what, std::string_view why,
                              std::string_view remedy) {
  return fmt::format("--require {} is not met: {}. Remedy: {}.", what, why, remedy);
}

Error nothing_ran() {
  return {
      Error::Kind::unmet,
      "Nothing ran, which is a failure with --require. Choose scenarios and --ranks that apply."};
}

std::string backend_not_built(std::string_view backend, std::string_view remedy) {
  return fmt::format("The backend {} is not in this build. Remedy: {}.", backend, remedy);
}

Error missing_part(std::string_view path, std::string_view command) {
  return {Error::Kind::usage,
          fmt::format("'{}' needs {}, which is not there. Build all of Lockstep, or install it "
                      "again.",
                      command, without_controls(path))};
}

Error no_catalogue(std::string_view path, std::string_view why) {
  return {Error::Kind::unmet,
          fmt::format("There is no catalogue of scenarios at {}: {}. 'list', 'show' and 'run' need "
                      "it. In a Python environment, 'pip install lockstep-watch[catalogue]' "
                      "installs it; elsewhere build Lockstep from its sources (ci/demo), or set "
                      "LOCKSTEP_CATALOGUE to a program with scenarios.",
                      without_controls(path), why)};
}

Error other_catalogue(std::string_view path, std::string_view version, std::string_view own) {
  return {Error::Kind::unmet,
          fmt::format("The catalogue of scenarios at {} belongs to Lockstep {}, but this is "
                      "Lockstep {}. Install both from one version, or set LOCKSTEP_CATALOGUE to a "
                      "program that was built with {}.",
                      without_controls(path), without_controls(version), own, own)};
}

Error unreadable_torch(std::string_view library, std::string_view why, std::string_view release) {
  return {Error::Kind::unmet,
          fmt::format("torch cannot be read: {}: {}. Install torch {} there, make it readable for "
                      "this user, or set LOCKSTEP_PYTHON to a Python that has torch and build "
                      "Lockstep again.",
                      without_controls(library), why, without_controls(release))};
}

Error other_torch(std::string_view folder, std::string_view version, std::string_view release) {
  return {
      Error::Kind::unmet,
      fmt::format("The catalogue of scenarios was built for torch {0}, but the torch in {1} is "
                  "{2}. Install torch {0} (pip install 'torch=={0}.*'), or a catalogue that "
                  "was built for that torch.",
                  without_controls(release), without_controls(folder), without_controls(version))};
}

Error no_mpi_launcher() {
  return usage(
      "--backend mpi needs ranks that MPI's own launcher started, and these were not. Start them "
      "with mpirun of Open MPI or of MPICH, or use --backend gloo.");
}

Error no_module_for(std::string_view name, const std::vector<std::string>& built) {
  const std::string has =
      built.empty() ? std::string("no MPI") : fmt::format("{} only", fmt::join(built, ", "));
  return usage(fmt::format(
      "{} started these ranks, but this Lockstep was built with {}. Use a launcher that belongs to "
      "it, or install the development package of {} and build Lockstep again.",
      name, has, name));
}

Error other_mpi(std::string_view name, std::string_view launcher, int found, int wanted) {
  return usage(
      fmt::format("The launcher started {} ranks, but the loaded module of {} sees a world of {}: "
                  "another MPI's launcher started them. Start them with {}, or unset LOCKSTEP_MPI "
                  "if it names the wrong MPI.",
                  wanted, name, found, launcher));
}

Error unset_variable(std::string_view missing, std::string_view given) {
  return usage(fmt::format(
      "{0} is set but {1} is not, although a launcher sets both. Set {1}, or unset {0}.", given,
      missing));
}

Error no_such_launcher(std::string_view program) {
  return usage(
      fmt::format("--launcher: there is no program '{}' on PATH. 'lockstep doctor' lists the "
                  "launchers that it finds.",
                  shown(program)));
}

Error launcher_started_nothing(std::string_view launcher, std::string_view how,
                               std::string_view last_words) {
  std::string words;
  for (std::size_t at = 0; at < last_words.size();) {
    const std::size_t end = std::min(last_words.find('\n', at), last_words.size());
    const std::string_view line = last_words.substr(at, end - at);
    // Lines of dashes and empty lines carry no information.
    if (line.find_first_not_of(" \r\t-") != line.npos) words += "\n  " + shown(line);
    at = end + 1;
  }
  return usage(fmt::format("The launcher '{}' {}, and no rank reported anything. {}",
                           shown(launcher), how,
                           words.empty() ? "It printed nothing." : "Its last output:" + words));
}

Error launcher_world_differs(std::string_view launcher, int started, int wanted) {
  return usage(
      fmt::format("The launcher '{}' started worlds of {} instead of one world of {}. It "
                  "may belong to another MPI, or {{ranks}} may be missing from the command.",
                  shown(launcher), counted(started, "rank"), wanted));
}

Error not_for_one_rank(std::string_view launcher, int rank, int world_size,
                       std::string_view wanted) {
  return usage(
      fmt::format("{} started this process as rank {} of {}, so it can only be one rank of one "
                  "cell. Give {}; or start lockstep without a launcher; or use --launcher none, "
                  "and lockstep starts its own ranks here.",
                  launcher, rank, world_size, wanted));
}

Error no_place_to_meet(std::string_view folder) {
  return usage(fmt::format(
      "Rank 0 did not write the address of the rendezvous to {}. Give a folder that all machines "
      "share, or set MASTER_ADDR and MASTER_PORT to a free port on the machine of rank 0.",
      folder));
}

Error launcher_is_gone(std::string_view launcher) {
  return usage(fmt::format(
      "{} ended before its rank, so the rank was ended, too. See the output of the launcher.",
      launcher));
}

Error launcher_gave_no_rank() {
  return usage(
      "The launcher gave this process no rank. Lockstep reads the variables of torchrun, Open MPI, "
      "MPICH and Slurm.");
}

Error not_empty(std::string_view folder) {
  return unwritable(folder, "it is not empty, and results are never overwritten",
                    "Name a new folder");
}

Error rank_observed_before(int rank) {
  return usage(
      fmt::format("Another process of this job was rank {}, and only the first one is observed. A "
                  "restarted rank "
                  "is not; independent trainings need a watch each.",
                  rank));
}

Error no_process(std::string_view why) {
  return usage(fmt::format("No process can be started: {}. See 'ulimit -u'.", why));
}

Error cell_process_ended(std::string_view how) {
  return {Error::Kind::machine,
          fmt::format("The process of a cell {}, and its ranks ended with it. If the machine ran "
                      "out of memory, run fewer cells at a time: --jobs 1.",
                      how)};
}

Error machine_fault(std::string_view problem, std::string_view remedy) {
  return {Error::Kind::machine,
          fmt::format("No rank was started: {}. Remedy: {}.", problem, remedy)};
}

Error cannot_start(std::string_view program, std::string_view why) {
  return usage(fmt::format("cannot start '{}': {}. Check the command after --.", program, why));
}

Error gpu_failed(std::string_view what) {
  return {
      Error::Kind::machine,
      fmt::format("A GPU {}. Values that it had yet to measure are missing in the journal: look "
                  "for an error of the job's own work on that GPU.",
                  what)};
}

Error nowhere_to_meet(std::string_view address, int port, std::string_view why) {
  const std::string place = port == 0 ? std::string(address) : fmt::format("{}:{}", address, port);
  return usage(
      fmt::format("The ranks cannot meet at {}: {}. Set MASTER_PORT to a free port.", place, why));
}

Error internal_error(std::string_view what) {
  return {Error::Kind::internal,
          fmt::format("Internal error: {}. This is a defect of Lockstep; please report it.", what)};
}

}  // namespace lockstep
