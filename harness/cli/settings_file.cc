#include "harness/cli/settings_file.h"

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

class SettingsReader {
 public:
  SettingsReader(const std::filesystem::path& file, const SettingsSection& section)
      : file_(file.filename().string()), section_(section) {}

  std::vector<FileSetting> read(const std::string& content) const {
    check_sections(content);
    std::istringstream text(content);
    std::vector<FileSetting> settings;
    for (CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
      if (item.parents.empty()) {
        throw malformed(file_, 0, 0, fmt::format("all settings in the section [{}]", section_.name),
                        item.name);
      }
      check_section(fmt::format("{}", fmt::join(item.parents, ".")));
      if (item.name == "++" || item.name == "--") continue;  // the ends of the section
      check(item);
      settings.emplace_back(item.name, std::move(item.inputs));
    }
    return settings;
  }

 private:
  void check_section(const std::string& name) const {
    if (name == section_.name) return;
    throw unknown_name(fmt::format("section in {}", file_), name, {section_.name});
  }

  /// Before the parser makes a list of all sections that another one lies in, and of all that each
  /// of these lies in.
  void check_sections(const std::string& text) const {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      CLI::detail::trim(line);
      if (line.size() < 3 || line.front() != '[' || line.back() != ']') continue;
      check_section(line.substr(1, line.size() - 2));
    }
  }

  /// A misspelt name would leave a setting out without a word.
  void check(const CLI::ConfigItem& item) const {
    const auto has = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, item.name) != names.end();
    };
    if (!has(section_.settings)) {
      throw unknown_name(fmt::format("setting of [{}] in {}", section_.name, file_), item.name,
                         section_.settings);
    }
    const bool is_right = has(section_.lists) ? !item.inputs.empty() : item.inputs.size() == 1;
    if (is_right) return;
    throw malformed(file_, 0, 0, fmt::format("one value of {}", item.name),
                    fmt::format("{}", item.inputs.size()));
  }

  std::string file_;
  const SettingsSection& section_;
};

}  // namespace

std::vector<FileSetting> read_settings(const std::filesystem::path& file,
                                       const SettingsSection& section) {
  return SettingsReader(file, section).read(read_text(file, kLargestSettings));
}

std::vector<FileSetting> read_watch_settings(const std::filesystem::path& file) {
  return read_settings(file, {"watch", {kSettingNames.begin(), kSettingNames.end()}});
}

}  // namespace lockstep
