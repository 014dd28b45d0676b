#include "harness/record/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace lockstep {

std::filesystem::path rank_file(const std::filesystem::path& folder, int rank,
                                std::string_view ending) {
  return folder / fmt::format("rank-{}{}", rank, ending);
}

std::vector<int> ranks_with_file(const std::filesystem::path& folder, std::string_view ending) {
  constexpr std::string_view kBegin = "rank-";
  std::vector<int> ranks;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string file = entry.path().filename();
    const std::string_view name = file;
    if (!name.starts_with(kBegin) || !name.ends_with(ending)) continue;
    const std::string_view digits =
        name.substr(kBegin.size(), name.size() - kBegin.size() - ending.size());
    int rank = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (failure == std::errc() && end == digits.data() + digits.size()) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace lockstep
