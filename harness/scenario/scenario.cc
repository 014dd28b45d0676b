#include "harness/scenario/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "reports/base/error.h"

namespace lockstep {

Settings::Settings(const char* words) {
  std::istringstream text(words);
  for (std::string word; text >> word;) {
    const auto sign = word.find('=');
    if (sign == 0 || sign >= word.size() - 1) {
      throw internal_error(fmt::format("'{}' in '{}' is no condition=value", word, words));
    }
    values.push_back({word.substr(0, sign), word.substr(sign + 1)});
  }
}

Variant Variant::compared_with(std::string reference_name) const {
  Variant variant = *this;
  variant.reference = std::move(reference_name);
  return variant;
}

Variant Variant::with_claims(std::vector<Claim> more) const {
  Variant variant = *this;
  variant.claims = std::move(more);
  return variant;
}

Variant Variant::hanging() const {
  Variant variant = *this;
  variant.limit = std::chrono::seconds(2);
  return variant;
}

Variant buggy(std::string name, std::string summary, Settings sets, ExpectationOf expect) {
  return {std::move(name), Role::buggy, std::move(summary), std::move(sets), std::move(expect)};
}

Variant wrong_fix(std::string name, std::string summary, Settings sets, ExpectationOf expect) {
  return {std::move(name), Role::wrong_fix, std::move(summary), std::move(sets), std::move(expect)};
}

Variant latent(std::string name, std::string summary, Settings sets, ExpectationOf expect) {
  return {std::move(name), Role::latent, std::move(summary), std::move(sets), std::move(expect)};
}

Variant fixed(std::string name, std::string summary, Settings sets, ExpectationOf expect) {
  return {std::move(name), Role::fixed, std::move(summary), std::move(sets), std::move(expect)};
}

Variant reference(std::string name, std::string summary, Settings sets) {
  return {std::move(name), Role::reference, std::move(summary), std::move(sets)};
}

DeviceNeeds device_per_rank(const Cell& cell) {
  return {.count = cell.world_size, .cpu_stands_in = false};
}

std::vector<int> worlds_from(int least, int most) {
  std::vector<int> worlds(static_cast<std::size_t>(most - least + 1));
  std::iota(worlds.begin(), worlds.end(), least);
  return worlds;
}

std::string worlds_in_words(const Scenario& scenario) {
  const std::vector<int>& worlds = scenario.worlds;
  const bool is_range = worlds.size() > 2 && worlds == worlds_from(worlds.front(), worlds.back());
  return is_range ? fmt::format("{} to {}", worlds.front(), worlds.back())
                  : fmt::format("{}", fmt::join(worlds, ", "));
}

const Variant* find_variant(const Scenario& scenario, const std::string& name) {
  const auto found = std::find_if(scenario.variants.begin(), scenario.variants.end(),
                                  [&](const Variant& variant) { return variant.name == name; });
  return found == scenario.variants.end() ? nullptr : &*found;
}

const Variant* reference_of(const Scenario& scenario, const Variant& variant) {
  if (variant.role == Role::reference) return nullptr;
  if (!variant.reference.empty()) return find_variant(scenario, variant.reference);
  const auto found = std::find_if(scenario.variants.begin(), scenario.variants.end(),
                                  [](const Variant& v) { return v.role == Role::reference; });
  return found == scenario.variants.end() ? nullptr : &*found;
}

namespace {

bool sets_axis(const Variant& variant, const std::string& name) {
  return std::any_of(variant.sets.values.begin(), variant.sets.values.end(),
                     [&](const AxisValue& setting) { return setting.axis == name; });
}

const Axis* find_axis(const Scenario& scenario, const std::string& name) {
  const auto found = std::find_if(scenario.axes.begin(), scenario.axes.end(),
                                  [&](const Axis& axis) { return axis.name == name; });
  return found == scenario.axes.end() ? nullptr : &*found;
}

}  // namespace

std::vector<const Axis*> axes_of(const Scenario& scenario, const Variant& variant) {
  std::vector<const Axis*> axes;
  for (const Axis& axis : scenario.axes) {
    const auto& names = axis.variants;
    const bool is_listed = std::find(names.begin(), names.end(), variant.name) != names.end();
    const bool is_closed =
        sets_axis(variant, axis.name) || (variant.role == Role::reference && !axis.in_reference);
    if (!is_closed && (names.empty() || is_listed)) axes.push_back(&axis);
  }
  return axes;
}

std::vector<AxisValue> settings_of(const Scenario& scenario, const Variant& variant) {
  std::vector<AxisValue> settings = variant.sets.values;
  for (AxisValue& setting : settings) {
    const Axis* const axis = find_axis(scenario, setting.axis);
    setting.is_default = axis && axis->default_value == setting.value;
  }
  return settings;
}

Expectation declared_expectation(const Scenario& scenario, const Cell& cell) {
  if (scenario.precondition) {
    if (std::string reason = scenario.precondition(cell); !reason.empty()) {
      return {.not_applicable = std::move(reason)};
    }
  }
  const Variant* const variant = find_variant(scenario, cell.variant);
  if (variant && variant->expect) return variant->expect(cell);
  return scenario.expect ? scenario.expect(cell) : Expectation{};
}

namespace {

void require(bool condition, const Scenario& scenario, const std::string& what) {
  if (!condition) throw internal_error(fmt::format("scenario '{}': {}", scenario.id, what));
}

void validate_settings(const Scenario& scenario, const Variant& variant) {
  std::set<std::string> names;
  for (const AxisValue& setting : variant.sets.values) {
    require(names.insert(setting.axis).second, scenario,
            "'" + variant.name + "' sets '" + setting.axis + "' twice");
    const Axis* const axis = find_axis(scenario, setting.axis);
    if (!axis) continue;
    require(
        std::find(axis->values.begin(), axis->values.end(), setting.value) != axis->values.end(),
        scenario,
        "'" + variant.name + "' sets '" + setting.axis + "' to '" + setting.value +
            "', which is no value of that axis");
  }
}

void validate_variants(const Scenario& scenario) {
  std::set<std::string> names;
  for (const Variant& variant : scenario.variants) {
    require(names.insert(variant.name).second, scenario, "two variants '" + variant.name + "'");
    validate_settings(scenario, variant);
    const bool is_faulty = variant.role == Role::buggy || variant.role == Role::wrong_fix;
    require(!is_faulty || variant.expect || scenario.expect, scenario,
            "'" + variant.name + "' is faulty, and nothing is expected of it");
  }
  require(!scenario.variants.empty(), scenario, "no variant");
}

/// A cell finds its reference by their common axes.
void validate_reference(const Scenario& scenario, const Variant& variant) {
  const Variant* reference = reference_of(scenario, variant);
  if (!reference) {
    require(variant.reference.empty(), scenario, "no variant '" + variant.reference + "'");
    return;
  }
  require(
      reference->role == Role::reference, scenario,
      "'" + variant.name + "' is compared with '" + reference->name + "', which is no reference");
  const std::vector<const Axis*> axes = axes_of(scenario, variant);
  for (const Axis* axis : axes_of(scenario, *reference)) {
    const bool is_known =
        std::find(axes.begin(), axes.end(), axis) != axes.end() || sets_axis(variant, axis->name);
    require(is_known, scenario,
            "the reference of '" + variant.name + "' depends on the axis '" + axis->name +
                "', and it does not");
  }
}

void validate_devices(const Scenario& scenario) {
  std::set<DeviceKind> kinds;
  for (const DeviceKind device : scenario.devices) {
    require(kinds.insert(device).second, scenario,
            fmt::format("the device '{}' twice", name(device)));
  }
  require(!kinds.empty(), scenario, "no device");
}

void validate_axes(const Scenario& scenario) {
  std::set<std::string> names;
  for (const Axis& axis : scenario.axes) {
    require(axis.name != "device", scenario, "an axis 'device', which --device chooses");
    require(axis.name != "backend", scenario, "an axis 'backend', which --backend chooses");
    require(names.insert(axis.name).second, scenario, "two axes '" + axis.name + "'");
    const bool has_default =
        std::find(axis.values.begin(), axis.values.end(), axis.default_value) != axis.values.end();
    const std::set<std::string> values(axis.values.begin(), axis.values.end());
    require(values.size() == axis.values.size(), scenario,
            "axis '" + axis.name + "' has a value twice");
    require(has_default, scenario, "the default value of axis '" + axis.name + "' is no value");
    for (const std::string& variant : axis.variants) {
      require(find_variant(scenario, variant), scenario,
              "axis '" + axis.name + "' of the unknown variant '" + variant + "'");
    }
  }
}

}  // namespace

void validate(const Scenario& scenario) {
  require(!scenario.id.empty(), scenario, "no id");
  require(!scenario.worlds.empty(), scenario, "no world size");
  require(!scenario.claims.empty(), scenario, "no claim");
  require(static_cast<bool>(scenario.body), scenario, "no body");
  validate_devices(scenario);
  validate_variants(scenario);
  validate_axes(scenario);
  for (const Variant& variant : scenario.variants) validate_reference(scenario, variant);
  std::set<std::string> titles;
  for (const TableSpec& table : scenario.tables) {
    require(titles.insert(table.title).second, scenario, "two tables '" + table.title + "'");
    for (const TableSpec::Group& group : table.groups) {
      require(find_variant(scenario, group.variant), scenario,
              "table '" + table.title + "' shows the unknown variant '" + group.variant + "'");
    }
  }
}

}  // namespace lockstep
