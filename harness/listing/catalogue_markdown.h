#pragma once

#include <string>

#include "harness/listing/scenario_filter.h"

namespace lockstep {

/// The table of docs/commands.md: id and fault.
std::string list_as_markdown(const ScenarioList& scenarios);

/// The whole `docs/catalogue.md`: every scenario by its class, with its axes and variants.
std::string catalogue_as_markdown(const ScenarioList& scenarios);

}  // namespace lockstep
