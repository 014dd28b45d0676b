#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace lockstep {

/// Frames of a stack, at most; those inside come first.
inline constexpr std::size_t kMostFrames = 64;

/// The stack that a rank wrote, without secrets: "forward, model.py:31", innermost first. Throws
/// nlohmann::json::exception if it is no list of texts.
std::vector<std::string> stack_in(const nlohmann::json& frames);

}  // namespace lockstep
