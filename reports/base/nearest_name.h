#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The one of `known` that `given` is nearest to by edits, or begins; empty: none can be meant.
std::string nearest_name(std::string_view given, const std::vector<std::string>& known);

}  // namespace lockstep
