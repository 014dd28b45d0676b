#include "harness/cli/watch_settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <sstream>

#include "reports/base/error.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kLargestSettings = 1 << 20;

bool is_setting(const std::string& name) {
  return std::find(kSettingNames.begin(), kSettingNames.end(), name) != kSettingNames.end();
}

/// The lines of the section [watch]. The parser makes a list of all sections that another one lies
/// in, and of all that each of these lies in.
std::string lines_of_watch(const std::string& text) {
  std::istringstream lines(text);
  std::string section;
  bool is_watch = false;
  for (std::string line; std::getline(lines, line);) {
    const std::string trimmed = CLI::detail::trim_copy(line);
    const bool is_header = trimmed.size() > 2 && trimmed.front() == '[' && trimmed.back() == ']';
    if (is_header) is_watch = trimmed == "[watch]";
    if (is_watch) section += line + "\n";
  }
  return section;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> read_watch_settings(
    const std::filesystem::path& file) {
  std::istringstream text(lines_of_watch(read_text(file, kLargestSettings)));
  std::vector<std::pair<std::string, std::string>> settings;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
    if (item.parents != std::vector<std::string>{"watch"} || item.name == "++" ||
        item.name == "--") {
      continue;
    }
    if (!is_setting(item.name) || item.inputs.size() != 1) {
      throw malformed(file.string(), 0, 0,
                      "[watch] with every, from, until, tensors, ignore, replicas, agree-every, "
                      "keep, history, stall, known and label, of one value each",
                      item.name);
    }
    settings.emplace_back(item.name, item.inputs.front());
  }
  return settings;
}

}  // namespace lockstep
