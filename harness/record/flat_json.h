#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lockstep {

/// Parses JSON in linear time: nlohmann's parser with a callback is quadratic in the members of an
/// object. `what` it is and its `path` are for errors: "the header". Throws Error (usage) for what
/// is no JSON, for objects and arrays in more than `most_levels` of each other, and for an object
/// with a key twice.
nlohmann::json parse_flat_json(const std::string& text, const std::string& path,
                               std::string_view what, std::size_t most_levels = 4);

}  // namespace lockstep
