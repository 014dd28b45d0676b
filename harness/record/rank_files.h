#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace lockstep {

// Endings of files that the hook of a rank writes.
inline constexpr std::string_view kFactsEnding = ".watch.json";  ///< what it knows besides tensors
/// That it trains in a process which is not observed.
inline constexpr std::string_view kElsewhereEnding = ".elsewhere.json";
/// That it trains nothing, and the digests of its parameters.
inline constexpr std::string_view kBystanderEnding = ".bystander.json";
inline constexpr std::string_view kStacksEnding = ".stacks";
inline constexpr std::string_view kProgressEnding = ".progress";
inline constexpr std::string_view kAnswerEnding = ".stall.json";  ///< where the rank stands still
inline constexpr std::string_view kEndEnding =
    ".ended.json";  ///< its calls, when an error ended it
inline constexpr std::string_view kKeptAnswerEnding = ".stalled.json";  ///< that of the last stall

/// Of those with texts of the training.
inline constexpr std::array<std::string_view, 7> kEndingsOfTexts{
    ".status.json", kFactsEnding,     kElsewhereEnding, kKeptAnswerEnding,
    kEndEnding,     kBystanderEnding, kStacksEnding};

/// Bytes of an answer.
inline constexpr std::uint64_t kLargestAnswer = 1 << 26;

/// The file `rank-N` + `ending` in a folder.
std::filesystem::path rank_file(const std::filesystem::path& folder, int rank,
                                std::string_view ending);

/// The ranks N, ascending, whose files `rank-N` + `ending` are in a folder. None if it is missing.
std::vector<int> ranks_with_file(const std::filesystem::path& folder, std::string_view ending);

}  // namespace lockstep
