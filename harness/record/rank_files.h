#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace lockstep {

/// The ranks N, ascending, whose files `rank-N` + `ending` are in a folder. None if it is missing.
std::vector<int> ranks_with_file(const std::filesystem::path& folder, std::string_view ending);

}  // namespace lockstep
