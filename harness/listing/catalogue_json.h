#pragma once

#include <string>
#include <vector>

#include "harness/listing/scenario_filter.h"
#include "harness/plan/wanted.h"

namespace lockstep {

/// The scenarios with all their variants as JSON, as `docs/formats.md` describes it.
std::string catalogue_as_json(const ScenarioList& scenarios);

/// The same, with those variants alone that are wanted.
std::string catalogue_as_json(const std::vector<Wanted>& wanted);

}  // namespace lockstep
