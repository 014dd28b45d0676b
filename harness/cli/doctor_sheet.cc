#include "harness/cli/doctor_sheet.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "harness/cli/bytes_in_words.h"
#include "harness/cli/paragraph.h"
#include "harness/launch/launch.h"
#include "harness/launch/launcher.h"
#include "harness/launch/machine.h"
#include "harness/launch/python_on_path.h"
#include "reports/base/error.h"
#include "reports/base/plain_text.h"
#include "reports/base/shell_word.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLabelWidth = 11;

void say_gpus(DoctorSheet& sheet, std::chrono::milliseconds limit) {
  sheet.begin("GPUs");
  const Capability gpus = find_gpu_capability(limit);
  sheet.say((gpus.is_there ? "" : "none: ") + gpus.text);
  if (!gpus.remedy.empty()) sheet.advise(gpus.remedy);
}

/// The folder of programs installed with a torch in PREFIX/lib/pythonX.Y/site-packages/torch, if it
/// contains torchrun.
std::string folder_of_torchrun(const fs::path& torch) {
  const fs::path programs = torch.parent_path().parent_path().parent_path().parent_path() / "bin";
  return find_program((programs / "torchrun").string()).empty() ? "" : programs.string();
}

/// For the torch of the Python on PATH, else for the catalogue's.
std::string folder_of_torchrun(const PythonOnPath& python, const fs::path& torch_library) {
  const std::string of_python =
      python.torch_folder.empty() ? "" : folder_of_torchrun(fs::path(python.torch_folder));
  return of_python.empty() ? folder_of_torchrun(torch_library.parent_path().parent_path())
                           : of_python;
}

/// `torchrun`: its folder, if known.
void say_launchers(DoctorSheet& sheet, std::chrono::milliseconds limit,
                   const std::string& torchrun) {
  sheet.begin("launchers");
  for (const std::string& name : known_launchers()) {
    Capability launcher = find_launcher_capability(name, limit);
    const bool is_off_path = name == "torchrun" && !torchrun.empty() && find_program(name).empty();
    if (is_off_path) launcher.remedy.clear();
    sheet.say(launcher);
    if (is_off_path)
      sheet.advise_command(fmt::format("export PATH={}:$PATH", plain(shell_word(torchrun))));
  }
}

void say_python(DoctorSheet& sheet, const PythonOnPath& python) {
  sheet.begin("python");
  if (python.path.empty()) {
    sheet.say("not on PATH");
    return sheet.advise("install python3, to examine jobs in Python");
  }
  sheet.say(python.version.empty() ? python.path
                                   : fmt::format("{}, {}", python.version, python.path));
  if (python.problem.empty()) {
    return sheet.say(fmt::format("torch {}, {}", python.torch_version, python.torch_folder));
  }
  sheet.say("torch: " + python.problem);
  sheet.advise(
      "put the Python of your jobs first on PATH, for example by activating its environment");
}

void say_surroundings(DoctorSheet& sheet) {
  sheet.begin("started by");
  try {
    const auto placement = foreign_placement(::getenv);
    if (!placement) return sheet.say("no launcher");
    sheet.say(fmt::format("{}, as rank {} of {}: 'run' would be this rank of a single cell",
                          placement->variables->launcher, placement->rank, placement->world_size));
    sheet.advise("start lockstep without a launcher, or use run --launcher none");
  } catch (const Error& error) {
    sheet.say(error.what());
  }
}

void say_open_files(DoctorSheet& sheet) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  int ranks = kMostRanksOfCell;
  while (ranks > 0 && files_needed(ranks) > files.rlim_cur) --ranks;
  const std::string limit =
      files.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("{}", files.rlim_cur);
  sheet.say(fmt::format("open files: {}, enough for {} ranks", limit, ranks));
  if (ranks == kMostRanksOfCell) return;
  sheet.advise(
      fmt::format("ulimit -n {}, for {} ranks", files_needed(kMostRanksOfCell), kMostRanksOfCell));
}

void say_free_space(DoctorSheet& sheet, const char* folder, const std::string& called,
                    const std::string& remedy) {
  constexpr std::uint64_t kLittle = std::uint64_t{100} << 20;
  struct statvfs disk {};
  if (::statvfs(folder, &disk) != 0) {
    sheet.say(fmt::format("{}: {}", called, std::strerror(errno)));
    return sheet.advise(remedy);
  }
  const std::uint64_t free = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  sheet.say(fmt::format("{}: {} free", called, bytes_in_words(free)));
  if (free < kLittle) sheet.advise(remedy);
}

void say_cores(DoctorSheet& sheet) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  sheet.say(fmt::format("cores: {}; more ranks than that take turns", CPU_COUNT(&cores)));
}

void say_limits(DoctorSheet& sheet) {
  sheet.begin("limits");
  say_open_files(sheet);
  say_free_space(sheet, ".", "this folder", "free some space, or give run --out elsewhere");
  say_free_space(sheet, "/dev/shm", "/dev/shm",
                 "gloo does not need it; for NCCL in a container, docker run --shm-size 1g");
  say_cores(sheet);
}

}  // namespace

void DoctorSheet::say(const std::string& sentence) {
  findings_ += paragraph(fmt::format("{:<{}}", label_, kLabelWidth), sentence);
  label_.clear();
}

void DoctorSheet::say(const Capability& capability) {
  say(fmt::format("{}: {}", capability.name, capability.text));
  if (!capability.remedy.empty()) advise(capability.remedy);
}

void DoctorSheet::advise(const std::string& remedy) {
  findings_ += paragraph(std::string(kLabelWidth + 2, ' '), "remedy: " + remedy);
}

void DoctorSheet::advise_command(const std::string& command) {
  advise("");
  findings_ += std::string(kLabelWidth + 2, ' ') + command + "\n";
}

void DoctorSheet::conclude(const std::string& sentence) {
  conclusion_ += (conclusion_.empty() ? "" : "\n") + paragraph("", sentence);
}

void say_machine(DoctorSheet& sheet, std::chrono::milliseconds limit,
                 const fs::path& torch_library) {
  const PythonOnPath python = find_python(limit);
  say_gpus(sheet, limit);
  say_launchers(sheet, limit, folder_of_torchrun(python, torch_library));
  say_python(sheet, python);
  say_surroundings(sheet);
  say_limits(sheet);
}

std::string fault_of_machine() {
  const auto fault = find_machine_fault(2);
  return fault ? fmt::format("{}. Remedy: {}.", fault->problem, fault->remedy) : "";
}

std::string run_cannot_work(const std::string& problem) {
  return "'lockstep run' cannot work here: " + problem;
}

}  // namespace lockstep
