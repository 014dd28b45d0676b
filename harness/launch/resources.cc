#include "harness/launch/resources.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lockstep {

namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// The number after `word` in a file of words and numbers; 0 if it is missing.
std::uint64_t number_of(const std::string& wanted, const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  for (std::string word; file >> word >> number;) {
    if (word == wanted) return number;
  }
  return 0;
}

/// Free memory of a control group; empty if it has no limit ("max"). The kernel's cached files
/// count as used, but can be evicted.
std::optional<std::uint64_t> memory_left(const fs::path& group) {
  const auto most = number_in(group / "memory.max");
  const auto used = number_in(group / "memory.current");
  if (!most || !used) return std::nullopt;
  const std::uint64_t cached = number_of("inactive_file", group / "memory.stat");
  return std::min(*most, *most - std::min(*most, *used) + cached);
}

/// Cores that the scheduler gives this process: taskset and Slurm may restrict them.
int own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

/// "150000 100000": one and a half cores; empty for "max 100000".
std::optional<int> cores_of(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double time = 0;
  double period = 0;
  if (!(file >> time >> period) || period <= 0) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(time / period)));
}

/// The group of this process ("0::/user.slice/...") and its ancestors, which all limit its
/// resources.
std::vector<fs::path> own_groups() {
  const fs::path root = "/sys/fs/cgroup";
  std::vector<fs::path> groups{root};
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (fs::path group = line.substr(4); !group.empty(); group = group.parent_path()) {
      groups.push_back(root / group);
    }
  }
  return groups;
}

/// "MemAvailable:   12345 kB"
std::optional<std::uint64_t> memory_of_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
  }
  return std::nullopt;
}

}  // namespace

int usable_cores() {
  int least = own_cores();
  for (const fs::path& group : own_groups()) {
    least = std::min(least, cores_of(group).value_or(least));
  }
  return least;
}

std::optional<std::uint64_t> free_memory() {
  std::optional<std::uint64_t> least = memory_of_machine();
  for (const fs::path& group : own_groups()) {
    const auto left = memory_left(group);
    if (left) least = std::min(least.value_or(*left), *left);
  }
  return least;
}

}  // namespace lockstep
