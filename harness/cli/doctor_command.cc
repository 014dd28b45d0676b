#include "harness/cli/doctor_command.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "harness/cli/capabilities.h"
#include "harness/cli/machine.h"
#include "harness/cli/paragraph.h"
#include "harness/cli/rehearsal.h"
#include "harness/cli/run_command.h"
#include "harness/launch/launch.h"
#include "harness/launch/launcher.h"
#include "harness/train/loaded_torch.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr std::size_t kLabelWidth = 11;

/// What doctor says, section by section: the label of a section stands before its first line only.
class Sheet {
 public:
  void begin(const std::string& label) { label_ = label; }

  void say(const std::string& sentence) {
    text_ += paragraph(fmt::format("{:<{}}", label_, kLabelWidth), sentence);
    label_.clear();
  }

  /// For what is missing, below what says so.
  void advise(const std::string& remedy) {
    text_ += paragraph(std::string(kLabelWidth + 2, ' '), "what helps: " + remedy);
  }

  void say(const Capability& capability) {
    say(fmt::format("{}: {}", capability.name, capability.text));
    if (!capability.remedy.empty()) advise(capability.remedy);
  }

  void conclude(const std::string& sentence) { text_ += "\n" + paragraph("", sentence); }

  const std::string& text() const { return text_; }

 private:
  std::string label_;
  std::string text_;
};

/// Returns why the torch that is loaded cannot be used; empty when it can.
std::string say_torch(Sheet& sheet) {
  const LoadedTorch torch = loaded_torch();
  const bool is_known = !torch.version.empty();
  const bool is_same = is_same_release(torch.version, LOCKSTEP_TORCH_VERSION);
  sheet.begin("torch");
  sheet.say("built against " LOCKSTEP_TORCH_VERSION);
  sheet.say(fmt::format("loaded {}, {}, from",
                        is_known ? torch.version : "a version that it does not say",
                        is_same ? "the same release" : "another release"));
  sheet.say(torch.file);
  if (is_same) return {};
  sheet.advise("unset LD_LIBRARY_PATH and LD_PRELOAD, or build Lockstep again with this torch");
  return fmt::format("it was built against torch {} and has loaded {}.", LOCKSTEP_TORCH_VERSION,
                     is_known ? torch.version : "one that does not say its version");
}

void say_capabilities(Sheet& sheet, std::chrono::milliseconds limit) {
  sheet.begin("backends");
  for (const std::string& name : known_backends()) {
    sheet.say(find_backend_capability(name, limit));
  }
  sheet.begin("GPUs");
  const Capability gpus = find_gpu_capability(limit);
  sheet.say((gpus.is_there ? "" : "none: ") + gpus.text);
  if (!gpus.remedy.empty()) sheet.advise(gpus.remedy);
  sheet.begin("launchers");
  for (const std::string& name : known_launchers()) {
    sheet.say(find_launcher_capability(name, limit));
  }
}

void say_surroundings(Sheet& sheet) {
  sheet.begin("started by");
  try {
    const auto seat = foreign_seat(::getenv);
    if (!seat) return sheet.say("no launcher");
    sheet.say(fmt::format("{}, as rank {} of {}: 'run' would be that rank of one cell",
                          seat->variables->launcher, seat->rank, seat->world_size));
    sheet.advise("start lockstep by itself, or with run --launcher none, for ranks of its own");
  } catch (const Error& error) {
    sheet.say(error.what());
  }
}

void say_open_files(Sheet& sheet) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  int ranks = kMostRanks;
  while (ranks > 0 && files_needed(ranks) > files.rlim_cur) --ranks;
  const std::string limit =
      files.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("{}", files.rlim_cur);
  sheet.say(fmt::format("open files: {}, enough for {} ranks", limit, ranks));
  if (ranks == kMostRanks) return;
  sheet.advise(fmt::format("ulimit -n {}, for {} ranks", files_needed(kMostRanks), kMostRanks));
}

std::string in_bytes(double count) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; count >= 1024 && unit + 1 < std::size(kUnits); ++unit) count /= 1024;
  return fmt::format("{:.{}f} {}", count, unit == 0 ? 0 : 1, kUnits[unit]);
}

void say_free_space(Sheet& sheet, const char* folder, const std::string& called,
                    const std::string& remedy) {
  constexpr double kLittle = 100.0 * 1024 * 1024;
  struct statvfs disk {};
  if (::statvfs(folder, &disk) != 0) {
    sheet.say(fmt::format("{}: {}", called, std::strerror(errno)));
    return sheet.advise(remedy);
  }
  const double free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  sheet.say(fmt::format("{}: {} free", called, in_bytes(free)));
  if (free < kLittle) sheet.advise(remedy);
}

void say_cores(Sheet& sheet) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  sheet.say(fmt::format("cores: {}; more ranks than that take turns", CPU_COUNT(&cores)));
}

void say_limits(Sheet& sheet) {
  sheet.begin("limits");
  say_open_files(sheet);
  say_free_space(sheet, ".", "this folder", "free some space, or give run --out elsewhere");
  say_free_space(sheet, "/dev/shm", "/dev/shm",
                 "gloo does not need it; for NCCL in a container, docker run --shm-size 1g");
  say_cores(sheet);
}

/// Why two ranks cannot be run, by what `run` checks as well; empty when they can.
std::string fault_of_machine() {
  const auto fault = find_machine_fault(2);
  return fault ? fmt::format("{}. What helps: {}.", fault->problem, fault->remedy) : "";
}

}  // namespace

ExitStatus doctor_command(std::chrono::milliseconds limit) {
  Sheet sheet;
  std::string problem = say_torch(sheet);
  say_capabilities(sheet, limit);
  say_surroundings(sheet);
  say_limits(sheet);
  if (problem.empty()) problem = fault_of_machine();
  if (problem.empty()) problem = rehearse(limit);
  sheet.conclude(problem.empty()
                     ? "'lockstep run' can work here: two ranks met on 127.0.0.1, reduced a tensor "
                       "over gloo and left their files in this folder."
                     : "'lockstep run' cannot work here: " + problem);
  show(sheet.text());
  return problem.empty() ? ExitStatus::as_expected : ExitStatus::failed;
}

}  // namespace lockstep
