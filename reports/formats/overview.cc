#include "reports/formats/overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "reports/base/names.h"
#include "reports/comparison/comparison_report.h"
#include "reports/formats/job_report.h"
#include "reports/record/result.h"

namespace lockstep {

namespace {

/// Whole numbers without decimals, other averages with one digit.
std::string count_text(double count) {
  return fmt::format("{:.{}f}", count, count == std::floor(count) ? 0 : 1);
}

/// Three digits, in a unit that suits a step.
std::string time_text(const std::optional<double>& seconds) {
  if (!seconds || !std::isfinite(*seconds)) return "-";
  const bool is_short = *seconds < 0.0009995;
  const double value = *seconds * (is_short ? 1e6 : 1e3);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, is_short ? "us" : "ms");
}

/// The cost of a variant that repairs nothing is meaningless, except for memory, which may be its
/// fault.
bool is_compared(const ShownCell& cell) {
  const Role role = cell.record->cell.role;
  const std::optional<Cost>& cost = cell.record->cost;
  if (cell.record->cell.repetition > 1 || !cost) return false;
  return role == Role::wrong_fix ? cost->memory.has_value() : role != Role::reference;
}

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::to_string(*bytes) : "-";
}

bool has_memory(const Section& section) {
  return std::any_of(section.cells.begin(), section.cells.end(), [](const ShownCell& shown) {
    return is_compared(shown) && shown.record->cost->memory;
  });
}

std::string_view sentence_of(ExitStatus status) {
  if (status == ExitStatus::as_expected) return "Everything is as expected";
  if (status == ExitStatus::undecided) return "Not everything could be decided";
  if (status == ExitStatus::not_applicable) return "Nothing ran";
  return "Not everything is as expected";
}

}  // namespace

namespace {

/// "torchrun train.py, 8 ranks: in lockstep: 57 steps, 1 to 57."; "3 jobs: 2 in lockstep."
std::string sentence_about_jobs(const RunRecord& run) {
  const std::size_t jobs = run.jobs.size();
  if (jobs == 1) {
    const std::string heading = heading_of(run.jobs[0]);
    return fmt::format("{}: {}{}", title_of(run.jobs[0]), heading,
                       heading.ends_with('.') ? "" : ".");
  }
  const auto as_expected = std::count_if(run.jobs.begin(), run.jobs.end(), [](const auto& job) {
    return status_of(job) == ExitStatus::as_expected;
  });
  return fmt::format("{} jobs: {} {}.", jobs, as_expected,
                     std::ranges::all_of(run.jobs, is_to_agree) ? "in lockstep" : "as expected");
}

/// "train.py, 2 ranks, compared with train.py, 1 rank: DIFFERENT: ...".
std::string sentence_about(const Comparison& comparison) {
  const std::string heading = heading_of(comparison);
  return fmt::format("{}: {}{}", title_of(comparison), heading, heading.ends_with('.') ? "" : ".");
}

}  // namespace

bool is_comparison(const RunRecord& run) {
  return run.cells.empty() && run.jobs.empty() && !run.comparisons.empty();
}

bool has_detections(const RunRecord& run) {
  return !run.cells.empty() || (run.jobs.empty() && run.comparisons.empty());
}

std::string verdict_sentence(const RunRecord& run) {
  if (!has_detections(run)) {
    std::vector<std::string> sentences;
    if (!run.jobs.empty()) sentences.push_back(sentence_about_jobs(run));
    if (is_matrix_of_fixes(run.comparisons)) {
      sentences.push_back(heading_of(run.comparisons));
    } else {
      for (const Comparison& one : run.comparisons) sentences.push_back(sentence_about(one));
    }
    return fmt::format("{}", fmt::join(sentences, " "));
  }
  std::array<int, Names<Result>::values.size()> cells{};
  for (const CellRecord& cell : run.cells) ++cells.at(static_cast<std::size_t>(result_of(cell)));
  std::vector<std::string> counts{
      fmt::format("{} {}", run.cells.size(), run.cells.size() == 1 ? "cell" : "cells")};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells.at(i) == 0) continue;
    counts.push_back(fmt::format("{} {}", cells.at(i), Names<Result>::values.at(i)));
  }
  return fmt::format("{}: {}.{}", sentence_of(exit_status(run)), fmt::join(counts, ", "),
                     run.jobs.empty() ? "" : " " + sentence_about_jobs(run));
}

std::vector<Column> detection_columns(const RunRecord& run) {
  std::vector<Column> columns{Column("scenario", 0, Align::left), Column("cells"),
                              Column("found", 8)};
  for (const std::string_view result : Names<Result>::values) {
    columns.emplace_back(std::string(result));
  }
  for (const Detection& line : detections(run)) {
    std::vector<std::string> row{line.scenario + on_device(line.device), std::to_string(line.cells),
                                 fmt::format("{} of {}", line.found, line.declared)};
    for (const int cells : line.results) row.push_back(std::to_string(cells));
    append_row(columns, row);
  }
  return columns;
}

std::string cost_text(const Section& section) {
  std::vector<Column> columns{Column("variant", 0, Align::left), Column("role", 0, Align::left),
                              Column("collectives"), Column("bytes"), Column("time")};
  const bool shows_memory = has_memory(section);
  if (shows_memory) columns.emplace_back("memory");
  bool has_fixed = false;
  for (const ShownCell& shown : section.cells) {
    if (!is_compared(shown)) continue;
    const Cell& cell = shown.record->cell;
    const Cost& cost = *shown.record->cost;
    has_fixed = has_fixed || cell.role == Role::fixed;
    std::vector<std::string> cells{cell.variant, std::string(name(cell.role)),
                                   count_text(cost.collectives), count_text(cost.bytes),
                                   time_text(cost.step_s)};
    if (shows_memory) cells.push_back(bytes_text(cost.memory));
    append_row(columns, cells);
  }
  if (!has_fixed) return "";
  const std::string_view sharing =
      section.jobs > 1 ? "while other cells used the same cores (--jobs 1 avoids it)"
                       : "rough on busy cores";
  return side_by_side(columns) +
         fmt::format("averages per step, on the busiest rank; time: median step, {}\n", sharing) +
         (shows_memory ? "memory: bytes, the most that any step needed on any rank\n" : "");
}

}  // namespace lockstep
