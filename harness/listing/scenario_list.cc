#include "harness/listing/scenario_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/listing/rows.h"
#include "harness/listing/scenario_words.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// All columns, in order.
const TextRow& list_heading() {
  static const TextRow heading{"scenario", "class", "ranks", "devices", "fault"};
  return heading;
}

TextRow row_of(const Scenario& scenario) {
  return {scenario.id, class_of(scenario), worlds_in_short(scenario),
          fmt::format("{}", fmt::join(names_of(scenario.devices), ",")), scenario.summary};
}

std::size_t width_before_last(const std::vector<TextRow>& rows) {
  std::size_t width = 0;
  for (std::size_t i = 0; i + 1 < rows.front().size(); ++i) {
    std::size_t widest = 0;
    for (const TextRow& row : rows) widest = std::max(widest, row[i].size());
    width += widest + 2;
  }
  return width;
}

/// Removes middle columns, the last first, until the last column has enough room.
void make_room(std::vector<TextRow>& rows, std::size_t width) {
  constexpr std::size_t kEnough = 36;
  while (rows.front().size() > 2 && width_before_last(rows) + kEnough > width) {
    for (TextRow& row : rows) row.erase(row.end() - 2);
  }
}

std::string stacked(const std::vector<TextRow>& rows, std::size_t width) {
  std::string text;
  for (const TextRow& row : rows) {
    text += row.front() + "\n  " + cut(row.back(), width - 2) + "\n";
  }
  return text;
}

std::vector<std::string> classes_of(const ScenarioList& scenarios) {
  std::vector<std::string> classes;
  for (const Scenario* scenario : scenarios) {
    const std::string name = class_of(*scenario);
    if (std::find(classes.begin(), classes.end(), name) == classes.end()) classes.push_back(name);
  }
  return classes;
}

std::string plural_of(std::size_t count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

std::string list_as_table(const ScenarioList& scenarios, std::optional<std::size_t> width) {
  constexpr std::size_t kLeastRoom = 20;
  std::vector<TextRow> rows{list_heading()};
  for (const Scenario* scenario : scenarios) rows.push_back(row_of(*scenario));
  if (width) {
    make_room(rows, *width);
    if (width_before_last(rows) + kLeastRoom > *width) {
      rows.erase(rows.begin());
      return stacked(rows, *width);
    }
  }
  return cut_rows(rows, width);
}

std::string list_summary(const ScenarioList& scenarios, std::size_t width) {
  const std::vector<std::string> classes = classes_of(scenarios);
  return wrapped(
      fmt::format("{} of {}: {}", plural_of(scenarios.size(), "scenario", "scenarios"),
                  plural_of(classes.size(), "class", "classes"), fmt::join(classes, ", ")),
      0, 2, width);
}

std::string list_with_variants(const ScenarioList& scenarios, std::size_t width) {
  std::string text;
  for (const Scenario* scenario : scenarios) {
    text += (text.empty() ? "" : "\n") + scenario->id + "\n";
    text += wrapped(scenario->summary, 2, 0, width);
    text += wrapped(
        fmt::format("class {}; {} ranks; {}", class_of(*scenario), worlds_in_words(*scenario),
                    fmt::join(names_of(scenario->devices), ", ")),
        2, 0, width);
    std::vector<TextRow> rows;
    for (const Variant& variant : scenario->variants) {
      rows.push_back({variant.name, std::string(name(variant.role)), variant.summary});
    }
    text += wrapped_rows(rows, 4, width);
  }
  return text;
}

}  // namespace lockstep
