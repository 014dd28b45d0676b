#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// docs/catalogue.md, compiled into the program, so that the wheel without a catalogue has it, too.
extern const std::string_view kCataloguePage;

/// What that page says of a scenario.
struct ScenarioPage {
  struct Variant {
    std::string name;
    std::string role;  ///< "buggy", "wrong-fix", "fixed"
    std::string description;
  };

  std::string meaning;  ///< "The loss is computed past the DDP wrapper, ..."
  std::string origin;   ///< "unsloth, pull request #4240 (2026-03-12)"
  std::vector<Variant> variants;
};

/// Nothing if the catalogue has no such scenario.
std::optional<ScenarioPage> scenario_page(std::string_view name);

/// In the order of the page.
std::vector<std::string> scenarios_of_page();

}  // namespace lockstep
