#include "reports/formats/scenario_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastName = 12;
/// In narrower tables, names need the room of the times.
constexpr std::size_t kWidthWithTimes = 60;

/// "2 and 3", "cpu, cuda and sim".
template <class Words>
std::string enumerated(const Words& words) {
  std::string text;
  std::size_t left = words.size();
  for (const auto& word : words) {
    text += fmt::format("{}{}", word, left > 2 ? ", " : left == 2 ? " and " : "");
    --left;
  }
  return text;
}

/// Backends and devices of a run's cells, without references: these need no backend and always
/// compute on the CPU.
struct Surroundings {
  std::set<std::string> backends;
  std::set<std::string> devices;
  std::set<int> world_sizes;
};

Surroundings surroundings_of(const RunRecord& run) {
  Surroundings all;
  for (const CellRecord& record : run.cells) {
    if (record.cell.role == Role::reference) continue;
    all.backends.emplace(name(record.cell.backend));
    all.devices.emplace(name(record.cell.device));
    all.world_sizes.insert(record.cell.world_size);
  }
  for (const JobRecord& job : run.jobs) all.world_sizes.insert(job.world_size);
  return all;
}

/// "0.4 s", "12 s", "3.5 min".
std::string time_in_words(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  return seconds < 99.5 ? fmt::format("{:.0f} s", seconds)
                        : fmt::format("{:.1f} min", seconds / 60);
}

double time_of_cells(const RunRecord& run, const std::string& scenario) {
  return std::accumulate(run.cells.begin(), run.cells.end(), 0.0,
                         [&](double sum, const CellRecord& record) {
                           return record.cell.scenario == scenario ? sum + record.duration_s : sum;
                         });
}

bool is_conspicuous(const Detection& line) {
  return line[Result::as_expected] + line[Result::not_run] != line.cells;
}

/// "2 FAILED, 1 NOT RUN".
std::string exceptions(const Detection& line, const Screen& screen) {
  std::vector<std::string> counts;
  for (std::size_t i = 0; i < line.results.size(); ++i) {
    const auto result = static_cast<Result>(i);
    if (result == Result::as_expected || line[result] == 0) continue;
    const std::string count = fmt::format("{} {}", line[result], name(result));
    counts.push_back(painted(count, result, screen));
  }
  return fmt::format("{}", fmt::join(counts, ", "));
}

struct Line {
  std::string name;
  std::string cells;
  std::string found;
  std::string time;
  std::string exceptions;
};

Line line_of(const Detection& detection, const RunRecord& run, const Screen& screen) {
  return {
      plain(detection.scenario + on_device(detection.device)), std::to_string(detection.cells),
      detection.declared == 0 ? "-" : fmt::format("{} of {}", detection.found, detection.declared),
      time_in_words(time_of_cells(run, detection.scenario)), exceptions(detection, screen)};
}

/// The detections that have a line of their own.
std::vector<Detection> shown_detections(const RunRecord& run, const Screen& screen) {
  std::vector<Detection> all = detections(run);
  if (screen.verbosity != Verbosity::overview) return all;
  std::size_t excess = all.size() - std::min(all.size(), kMostScenarioLines);
  for (std::size_t i = all.size(); i-- > 0 && excess > 0;) {
    if (is_conspicuous(all[i])) continue;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    --excess;
  }
  return all;
}

/// The largest width of a part over all lines.
std::size_t widest(const std::vector<Line>& lines, std::string Line::*part) {
  std::size_t width = 0;
  for (const Line& line : lines) width = std::max(width, (line.*part).size());
  return width;
}

std::string shortened(const std::string& name, std::size_t width) {
  if (name.size() <= width) return name;
  const std::string pieces = folded(name, width - 2);
  return pieces.substr(0, pieces.find('\n')) + "..";
}

/// `line` followed by its exceptions, on the next line if they do not fit.
std::string with_exceptions(std::string line, const Line& parts, const Detection* detection,
                            std::size_t width) {
  if (!detection || parts.exceptions.empty()) return line + "\n";
  const std::size_t size = exceptions(*detection, Screen()).size();
  line += line.size() + kGap + size > width ? "\n    " : std::string(kGap, ' ');
  return line + parts.exceptions + "\n";
}

}  // namespace

std::string configuration_in_words(const RunRecord& run) {
  const Surroundings around = surroundings_of(run);
  std::vector<std::string> words;
  const RunEnvironment& environment = run.environment;
  if (!environment.lockstep_version.empty()) {
    words.push_back("lockstep " + plain(environment.lockstep_version));
  }
  if (!environment.torch_version.empty()) {
    words.push_back("torch " + plain(environment.torch_version));
  }
  if (!around.backends.empty()) words.push_back(enumerated(around.backends));
  if (!around.devices.empty()) words.push_back(enumerated(around.devices));
  if (!around.world_sizes.empty()) {
    const bool is_one = around.world_sizes == std::set<int>{1};
    words.push_back(enumerated(around.world_sizes) + (is_one ? " rank" : " ranks"));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string scenario_table(const RunRecord& run, const Screen& screen) {
  const std::vector<Detection> shown = shown_detections(run, screen);
  if (shown.empty()) return "";
  std::vector<Line> lines{{"scenario", "cells", "found", "cell time", ""}};
  for (const Detection& detection : shown) lines.push_back(line_of(detection, run, screen));
  const std::size_t cells = widest(lines, &Line::cells) + kGap;
  const std::size_t found = widest(lines, &Line::found) + kGap;
  const std::size_t time = screen.width < kWidthWithTimes ? 0 : widest(lines, &Line::time) + kGap;
  const std::size_t room = screen.width - std::min(screen.width, cells + found + time);
  const std::size_t names = std::min(widest(lines, &Line::name), std::max(room, kLeastName));
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    std::string row = fmt::format("{:<{}}{:>{}}{:>{}}", shortened(line.name, names), names,
                                  line.cells, cells, line.found, found);
    if (time > 0) row += fmt::format("{:>{}}", line.time, time);
    text += with_exceptions(std::move(row), line, i == 0 ? nullptr : &shown[i - 1], screen.width);
  }
  const std::size_t hidden = detections(run).size() - shown.size();
  if (hidden > 0) text += fmt::format("and {} more scenarios, without a failure\n", hidden);
  return text;
}

}  // namespace lockstep
