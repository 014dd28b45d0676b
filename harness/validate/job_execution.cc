#include "harness/validate/job_execution.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/record/rank_files.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLargest = 64 << 20;
constexpr const char* kEnd = ".execution.json";

/// A member of an object; null: there is none.
const Json& member(const Json& json, const char* name) {
  static const Json kNothing;
  const auto found = json.find(name);
  return found == json.end() ? kNothing : *found;
}

void add_texts(const Json& json, std::map<std::string, std::string>& texts) {
  if (!json.is_object()) return;
  for (const auto& [name, text] : json.items()) {
    if (text.is_string()) texts.emplace(name, text.get<std::string>());
  }
}

void add_numbers(const Json& json, std::set<std::int64_t>& numbers) {
  if (!json.is_array()) return;
  for (const Json& number : json) {
    if (number.is_number_integer()) numbers.insert(number.get<std::int64_t>());
  }
}

void add_lines(const Json& json, std::map<std::string, TracedLines>& lines) {
  if (!json.is_object()) return;
  for (const auto& [path, of_file] : json.items()) {
    if (!of_file.is_object()) continue;
    TracedLines& traced = lines[path];
    add_numbers(member(of_file, "code"), traced.code);
    add_numbers(member(of_file, "executed"), traced.executed);
  }
}

void add_rank(const Json& json, JobExecution& all) {
  all.is_known = true;
  add_texts(member(json, "files"), all.digests);
  add_texts(member(json, "versions"), all.versions);
  const Json& roots = member(json, "roots");
  if (all.roots.empty() && roots.is_array()) {
    for (const Json& root : roots) {
      if (root.is_string()) all.roots.push_back(root.get<std::string>());
    }
  }
  if (const Json& device = member(json, "device"); device.is_string()) {
    all.devices.insert(device.get<std::string>());
  }
  if (const Json& seed = member(json, "seed"); seed.is_number_integer()) {
    all.seed = seed.get<std::int64_t>();
  }
  add_lines(member(json, "lines"), all.lines);
}

}  // namespace

JobExecution read_execution(const std::filesystem::path& files) {
  JobExecution all;
  for (const int rank : ranks_with_file(files, kEnd)) {
    const auto json =
        Json::parse(read_text(rank_file(files, rank, kEnd), kLargest), nullptr, false);
    if (json.is_object()) add_rank(json, all);
  }
  return all;
}

}  // namespace lockstep
