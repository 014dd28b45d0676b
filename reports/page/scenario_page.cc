#include "reports/page/scenario_page.h"

#include <cstddef>
#include <sstream>
#include <utility>

namespace lockstep {

namespace {

constexpr std::string_view kHeading = "\n### `";

/// The text after `begin` and before the next `end`; empty: there is no `begin`.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t found = text.find(begin);
  if (found == text.npos) return {};
  text.remove_prefix(found + begin.size());
  return text.substr(0, text.find(end));
}

/// The cells of "| `name` | role | axes | description |", with the spaces around each.
std::vector<std::string_view> cells_of(std::string_view row) {
  std::vector<std::string_view> cells;
  for (std::size_t bar = row.find('|'); bar != row.npos; bar = row.find('|')) {
    cells.push_back(row.substr(0, bar));
    row.remove_prefix(bar + 1);
  }
  if (!cells.empty()) cells.erase(cells.begin());  // before the first bar
  return cells;
}

/// Nothing if the row is a heading. Scenarios without axes have no such column.
std::optional<ScenarioPage::Variant> variant_of(std::string_view row) {
  const std::vector<std::string_view> cells = cells_of(row);
  if (cells.size() < 3 || !cells[0].starts_with(" `")) return {};
  const auto text = [](std::string_view cell) {
    return std::string(cell.substr(1, cell.size() - 2));
  };
  return ScenarioPage::Variant{.name = std::string(between(cells[0], "`", "`")),
                               .role = text(cells[1]),
                               .description = text(cells.back())};
}

}  // namespace

std::optional<ScenarioPage> scenario_page(std::string_view name) {
  const std::string heading = std::string(kHeading) + std::string(name) + "`\n\n";
  const std::string_view section = between(kCataloguePage, heading, "\n##");
  if (section.empty()) return {};
  ScenarioPage page{.meaning = std::string(section.substr(0, section.find("\n\n"))),
                    .origin = std::string(between(section, "\n- From: ", "\n"))};
  std::istringstream lines{std::string(between(section, "\n| variant |", "\n\n"))};
  for (std::string line; std::getline(lines, line);) {
    if (auto variant = variant_of(line)) page.variants.push_back(*std::move(variant));
  }
  return page;
}

std::vector<std::string> scenarios_of_page() {
  std::vector<std::string> names;
  std::string_view rest = kCataloguePage;
  for (std::size_t found = rest.find(kHeading); found != rest.npos; found = rest.find(kHeading)) {
    rest.remove_prefix(found + kHeading.size());
    names.emplace_back(rest.substr(0, rest.find('`')));
  }
  return names;
}

}  // namespace lockstep
