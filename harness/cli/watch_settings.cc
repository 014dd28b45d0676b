#include "harness/cli/watch_settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <sstream>

#include "reports/base/error.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

/// The parser copies the rest of a list for each of its values.
constexpr std::uint64_t kLargestSettings = 64 << 10;

void check_section(const std::string& section) {
  if (section != "watch") {
    throw unknown_name(fmt::format("section in {}", kWatchSettings), section, {"watch"});
  }
}

/// Before the parser makes a list of all sections that another one lies in, and of all that each of
/// these lies in.
void check_sections(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CLI::detail::trim(line);
    if (line.size() < 3 || line.front() != '[' || line.back() != ']') continue;
    check_section(line.substr(1, line.size() - 2));
  }
}

/// A misspelt name would leave a setting out without a word.
void check_name(const std::string& name) {
  if (std::ranges::find(kSettingNames, name) != kSettingNames.end()) return;
  throw unknown_name(fmt::format("setting of [watch] in {}", kWatchSettings), name,
                     {kSettingNames.begin(), kSettingNames.end()});
}

}  // namespace

std::vector<std::pair<std::string, std::string>> read_watch_settings(
    const std::filesystem::path& file) {
  const std::string content = read_text(file, kLargestSettings);
  check_sections(content);
  std::istringstream text(content);
  std::vector<std::pair<std::string, std::string>> settings;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
    if (item.parents.empty()) {
      throw malformed(kWatchSettings, 0, 0, "all settings in the section [watch]", item.name);
    }
    check_section(fmt::format("{}", fmt::join(item.parents, ".")));
    if (item.name == "++" || item.name == "--") continue;  // the ends of the section
    check_name(item.name);
    if (item.inputs.size() != 1) {
      throw malformed(kWatchSettings, 0, 0, fmt::format("one value of {}", item.name),
                      fmt::format("{}", item.inputs.size()));
    }
    settings.emplace_back(item.name, item.inputs.front());
  }
  return settings;
}

}  // namespace lockstep
