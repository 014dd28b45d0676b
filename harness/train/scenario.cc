#include "harness/train/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reports/error.h"

namespace lockstep {

const Variant* find_variant(const Scenario& scenario, const std::string& name) {
  const auto found = std::find_if(scenario.variants.begin(), scenario.variants.end(),
                                  [&](const Variant& variant) { return variant.name == name; });
  return found == scenario.variants.end() ? nullptr : &*found;
}

const Variant* reference_variant(const Scenario& scenario) {
  const auto found =
      std::find_if(scenario.variants.begin(), scenario.variants.end(),
                   [](const Variant& variant) { return variant.role == Role::reference; });
  return found == scenario.variants.end() ? nullptr : &*found;
}

namespace {

void require(bool condition, const Scenario& scenario, const std::string& what) {
  if (!condition) throw internal_error(fmt::format("scenario '{}': {}", scenario.id, what));
}

void validate_variants(const Scenario& scenario) {
  std::set<std::string> names;
  int references = 0;
  for (const Variant& variant : scenario.variants) {
    require(names.insert(variant.name).second, scenario, "two variants '" + variant.name + "'");
    references += variant.role == Role::reference ? 1 : 0;
  }
  require(references <= 1, scenario, "more than one reference");
  require(!scenario.variants.empty(), scenario, "no variant");
}

void validate_axes(const Scenario& scenario) {
  std::set<std::string> names;
  for (const Axis& axis : scenario.axes) {
    require(names.insert(axis.name).second, scenario, "two axes '" + axis.name + "'");
    const bool has_standard =
        std::find(axis.values.begin(), axis.values.end(), axis.standard) != axis.values.end();
    require(has_standard, scenario, "the standard value of axis '" + axis.name + "' is no value");
  }
}

}  // namespace

void validate(const Scenario& scenario) {
  require(!scenario.id.empty(), scenario, "no id");
  require(!scenario.worlds.empty(), scenario, "no world size");
  require(!scenario.claims.empty(), scenario, "no claim");
  require(scenario.body && scenario.expect, scenario, "no body or no expectation");
  validate_variants(scenario);
  validate_axes(scenario);
  for (const TableSpec& table : scenario.tables) {
    for (const TableSpec::Group& group : table.groups) {
      require(find_variant(scenario, group.variant), scenario,
              "table '" + table.title + "' shows the unknown variant '" + group.variant + "'");
    }
  }
}

}  // namespace lockstep
