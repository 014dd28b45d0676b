#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/plan/literal_scenario.h"

namespace lockstep {

inline Scenario listed_scenario(std::string id, std::string summary, const std::string& folder) {
  Scenario scenario = literal_scenario(std::move(id));
  scenario.summary = std::move(summary);
  scenario.source = "scenarios/" + folder + "/some_file.cc";
  return scenario;
}

/// Three scenarios of two classes.
inline std::vector<Scenario> literal_catalogue() {
  std::vector<Scenario> scenarios{
      listed_scenario("loss-outside",
                      "The loss is computed beside the wrapper, and nobody sees it.", "hooks"),
      listed_scenario("hook-runs-twice", "A hook runs twice: gradients are counted two times.",
                      "hooks"),
      listed_scenario("batches-uneven", "One rank has a batch less, and the others HANG.",
                      "collectives")};
  for (Scenario& scenario : scenarios) scenario.devices = {DeviceKind::cpu};
  scenarios[1].worlds = worlds_from(2, 16);
  scenarios[1].devices = {DeviceKind::sim, DeviceKind::cuda};
  scenarios[2].axes.clear();
  return scenarios;
}

}  // namespace lockstep
