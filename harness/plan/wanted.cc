#include "harness/plan/wanted.h"

#include <algorithm>
#include <cstddef>

#include "harness/plan/glob.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace {

std::vector<std::string> ids_of(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> ids;
  for (const Scenario& scenario : scenarios) ids.push_back(scenario.id);
  return ids;
}

void want_all(const Scenario& scenario, Wanted& wanted) {
  for (const Variant& variant : scenario.variants) wanted.variants.insert(variant.name);
}

std::vector<std::string> variants_of(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const Variant& variant : scenario.variants) names.push_back(variant.name);
  return names;
}

void want_one(const Scenario& scenario, const std::string& name, Wanted& wanted) {
  if (!find_variant(scenario, name)) {
    throw unknown_name("variant of " + scenario.id, name, variants_of(scenario));
  }
  wanted.variants.insert(name);
}

/// The parts of "loss*/all-reduce*"; the second part of "loss*" is "*".
struct Pattern {
  explicit Pattern(const std::string& word)
      : scenario(word.substr(0, word.find('/'))),
        variant(word.find('/') == word.npos ? "*" : word.substr(word.find('/') + 1)) {}

  std::string scenario;
  std::string variant;
};

/// Throws Error (usage) if no scenario matches, or no variant of the matching ones.
void want_matching(const std::string& word, std::vector<Wanted>& all) {
  const Pattern pattern(word);
  bool has_scenario = false;
  bool has_variant = false;
  std::vector<std::string> ids;
  std::vector<std::string> variants;
  for (Wanted& wanted : all) {
    ids.push_back(wanted.scenario->id);
    if (!matches_glob(pattern.scenario, wanted.scenario->id)) continue;
    has_scenario = true;
    for (const std::string& name : variants_of(*wanted.scenario)) {
      variants.push_back(name);
      if (!matches_glob(pattern.variant, name)) continue;
      has_variant = true;
      wanted.variants.insert(name);
    }
  }
  if (!has_scenario) throw nothing_matches("scenario", pattern.scenario, ids);
  if (!has_variant) {
    throw nothing_matches("variant of " + pattern.scenario, pattern.variant, variants);
  }
}

/// The axes that a selected variant depends on.
std::vector<const Axis*> axes_of(const Wanted& wanted) {
  std::vector<const Axis*> axes;
  for (const Axis& axis : wanted.scenario->axes) {
    const bool is_used =
        std::any_of(wanted.variants.begin(), wanted.variants.end(), [&](const std::string& name) {
          const auto of_variant = axes_of(*wanted.scenario, *find_variant(*wanted.scenario, name));
          return std::find(of_variant.begin(), of_variant.end(), &axis) != of_variant.end();
        });
    if (is_used) axes.push_back(&axis);
  }
  return axes;
}

}  // namespace

std::vector<Wanted> wanted_of(const std::vector<Scenario>& scenarios,
                              const std::vector<std::string>& names) {
  std::vector<Wanted> all;
  for (const Scenario& scenario : scenarios) {
    all.push_back({&scenario, {}});
    if (names.empty()) want_all(scenario, all.back());
  }
  for (const std::string& name : names) {
    if (is_glob(name)) {
      want_matching(name, all);
      continue;
    }
    const auto slash = name.find('/');
    const Scenario& scenario = find_scenario(scenarios, slash == 0 ? name : name.substr(0, slash));
    Wanted& wanted = all[static_cast<std::size_t>(&scenario - scenarios.data())];
    if (slash == std::string::npos) {
      want_all(scenario, wanted);
    } else {
      want_one(scenario, name.substr(slash + 1), wanted);
    }
  }
  std::erase_if(all, [](const Wanted& wanted) { return wanted.variants.empty(); });
  return all;
}

void check_axes(const std::vector<Wanted>& all, const std::vector<AxisValue>& set) {
  for (const AxisValue& chosen : set) {
    std::vector<std::string> axes;
    std::vector<std::string> values;
    for (const Wanted& wanted : all) {
      for (const Axis* axis : axes_of(wanted)) {
        axes.push_back(axis->name);
        if (axis->name != chosen.axis) continue;
        values.insert(values.end(), axis->values.begin(), axis->values.end());
      }
    }
    if (values.empty()) throw unknown_name("axis", chosen.axis, axes);
    if (std::find(values.begin(), values.end(), chosen.value) == values.end()) {
      throw unknown_name("value of axis " + chosen.axis, chosen.value, values);
    }
  }
}

const Scenario& find_scenario(const std::vector<Scenario>& scenarios, const std::string& id) {
  for (const Scenario& scenario : scenarios) {
    if (scenario.id == id) return scenario;
  }
  throw unknown_name("scenario", id, ids_of(scenarios));
}

}  // namespace lockstep
