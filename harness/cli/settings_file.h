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
    "every",       "start", "until",   "tensors", "ignore", "replicas",
    "agree-every", "keep",  "history", "stall",   "known",  "label"};

/// A setting with its values: one, or those of a list.
using FileSetting = std::pair<std::string, std::vector<std::string>>;

/// The only section that a file may have, and the settings there. Those of `lists` may have several
/// values.
struct SettingsSection {
  std::string name;
  std::vector<std::string> settings;
  std::vector<std::string> lists = {};
};

/// The settings of a file in TOML, in its order. Throws Error (usage) if it has another section, a
/// setting outside of this one, of another name or with several values that is no list. Takes
/// linear time.
std::vector<FileSetting> read_settings(const std::filesystem::path& file,
                                       const SettingsSection& section);

/// Those of `watch`.
std::vector<FileSetting> read_watch_settings(const std::filesystem::path& file);

}  // namespace lockstep
