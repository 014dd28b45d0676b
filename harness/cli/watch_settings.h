#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// What a repository says about its jobs: the section [watch] of this file in the working folder.
/// The command line replaces it.
inline constexpr const char* kWatchSettings = "lockstep.toml";

/// The settings that it may have.
inline constexpr std::array<std::string_view, 12> kSettingNames{
    "every",       "from", "until",   "tensors", "ignore", "replicas",
    "agree-every", "keep", "history", "stall",   "known",  "label"};

/// The settings of a file, in its order: one of `kSettingNames` and its value each. Throws Error
/// (usage) if it has another section, a setting outside of this one, of another name or of several
/// values. Takes linear time.
std::vector<std::pair<std::string, std::string>> read_watch_settings(
    const std::filesystem::path& file);

}  // namespace lockstep
