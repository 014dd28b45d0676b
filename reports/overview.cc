#include "reports/overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "reports/names.h"

namespace lockstep {

namespace {

/// Whole numbers as they are, averages that are none with one digit.
std::string count_text(double count) {
  return fmt::format("{:.{}f}", count, count == std::floor(count) ? 0 : 1);
}

/// Three digits, in the unit that suits a step.
std::string time_text(const std::optional<double>& seconds) {
  if (!seconds || !std::isfinite(*seconds)) return "-";
  const bool is_short = *seconds < 0.0009995;
  const double value = *seconds * (is_short ? 1e6 : 1e3);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, is_short ? "us" : "ms");
}

/// A step of a variant that repairs nothing has no price; but it may be memory that is wrong.
bool is_compared(const ToldCell& cell) {
  const Role role = cell.record->cell.role;
  const std::optional<Cost>& cost = cell.record->cost;
  if (cell.record->cell.repetition > 1 || !cost) return false;
  return role == Role::wrong_fix ? cost->memory.has_value() : role != Role::reference;
}

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? std::to_string(*bytes) : "-";
}

bool has_memory(const Section& section) {
  return std::any_of(section.cells.begin(), section.cells.end(), [](const ToldCell& told) {
    return is_compared(told) && told.record->cost->memory;
  });
}

}  // namespace

std::string verdict_sentence(const RunRecord& run) {
  constexpr std::array<std::string_view, 4> kSentences{
      "Everything is as expected", "Not everything is as expected",
      "Not everything could be decided", "Nothing ran"};
  std::array<int, Names<CellVerdict>::values.size()> cells{};
  for (const CellRecord& cell : run.cells) ++cells.at(static_cast<std::size_t>(cell.verdict));
  std::vector<std::string> counts{
      fmt::format("{} {}", run.cells.size(), run.cells.size() == 1 ? "cell" : "cells")};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells.at(i) == 0) continue;
    const bool is_plural =
        static_cast<CellVerdict>(i) == CellVerdict::false_alarm && cells.at(i) > 1;
    counts.push_back(fmt::format("{} {}{}", cells.at(i), Names<CellVerdict>::values.at(i),
                                 is_plural ? "s" : ""));
  }
  const std::string_view sentence = kSentences.at(static_cast<std::size_t>(exit_status(run)));
  return fmt::format("{}: {}.", sentence, fmt::join(counts, ", "));
}

std::vector<Column> detection_columns(const RunRecord& run) {
  std::vector<Column> columns{Column("scenario", 0, Align::left),
                              Column("cells"),
                              Column("found", 8),
                              Column("missed"),
                              Column("false alarms"),
                              Column("undecided"),
                              Column("as expected")};
  for (const Detection& line : detections(run)) {
    append_row(columns, {line.scenario + on_device(line.device), std::to_string(line.cells),
                         fmt::format("{} of {}", line.found, line.declared),
                         std::to_string(line.missed), std::to_string(line.false_alarms),
                         std::to_string(line.undecided), std::to_string(line.as_expected)});
  }
  return columns;
}

std::string cost_text(const Section& section) {
  std::vector<Column> columns{Column("variant", 0, Align::left), Column("role", 0, Align::left),
                              Column("collectives"), Column("bytes"), Column("time")};
  const bool shows_memory = has_memory(section);
  if (shows_memory) columns.emplace_back("memory");
  bool has_fixed = false;
  for (const ToldCell& told : section.cells) {
    if (!is_compared(told)) continue;
    const Cell& cell = told.record->cell;
    const Cost& cost = *told.record->cost;
    has_fixed = has_fixed || cell.role == Role::fixed;
    std::vector<std::string> cells{cell.variant, std::string(name(cell.role)),
                                   count_text(cost.collectives), count_text(cost.bytes),
                                   time_text(cost.step_s)};
    if (shows_memory) cells.push_back(bytes_text(cost.memory));
    append_row(columns, std::move(cells));
  }
  if (!has_fixed) return "";
  return "What a step costs a rank:\n" + side_by_side(columns) +
         "per step on average, on the rank with the most; time: median step, rough on busy "
         "cores\n" +
         (shows_memory ? "memory: bytes, the most that any step needed on any rank\n" : "");
}

}  // namespace lockstep
