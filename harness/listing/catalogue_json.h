#pragma once

#include <string>
#include <vector>

#include "harness/listing/scenario_filter.h"
#include "harness/plan/wanted.h"

namespace lockstep {

/// The scenarios with all their variants as JSON, in the format of `docs/formats.md`.
std::string catalogue_as_json(const ScenarioList& scenarios);

/// The same, with only the selected variants.
std::string catalogue_as_json(const std::vector<Wanted>& wanted);

}  // namespace lockstep
