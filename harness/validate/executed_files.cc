#include "harness/validate/executed_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/record/rank_files.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargest = 64 << 20;

/// The path of an executed file in its state; empty: it is of none.
std::string path_in(const CodeState& state, const std::string& file) {
  for (const fs::path& top : {state.top, state.environment}) {
    if (top.empty() || !file.starts_with(top.string() + "/")) continue;
    return file.substr(top.string().size() + 1);
  }
  return "";
}

/// By path in the state.
std::map<std::string, std::string> own_files(const ExecutedState& side) {
  std::map<std::string, std::string> own;
  for (const auto& [file, digest] : side.files.digests) {
    if (std::string path = path_in(side.state, file); !path.empty()) own.emplace(path, digest);
  }
  return own;
}

/// Whether a rank may read the file without executing it: it is neither a source of Python, which
/// it imports, nor prose.
bool may_be_read(const std::string& file) {
  const std::string extension = fs::path(file).extension();
  return extension != ".py" && extension != ".md" && extension != ".rst";
}

/// Executed by both sides in one place although each state has a file of that name: the package is
/// installed from one folder for both.
std::vector<std::string> shared_files(const ExecutedState& before, const ExecutedState& after) {
  std::vector<std::string> shared;
  if (before.state.top == after.state.top) return shared;  // they differ in their environments
  for (const auto& [file, digest] : before.files.digests) {
    if (!after.files.digests.contains(file)) continue;
    for (const std::string& source : {before.state.sources.back(), after.state.sources.back(),
                                      before.state.top.string(), after.state.top.string()}) {
      if (!file.starts_with(source + "/")) continue;
      const std::string path = file.substr(source.size() + 1);
      if (!fs::exists(before.state.top / path) || !fs::exists(after.state.top / path)) continue;
      shared.push_back(path);
      break;
    }
  }
  return shared;
}

}  // namespace

void ExecutedFiles::add(const ExecutedFiles& other) {
  digests.insert(other.digests.begin(), other.digests.end());
  is_known = is_known || other.is_known;
}

ExecutedFiles executed_files(const fs::path& files) {
  ExecutedFiles executed;
  for (const int rank : ranks_with_file(files, ".files.json")) {
    const std::string text = read_text(rank_file(files, rank, ".files.json"), kLargest);
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) continue;
    executed.is_known = true;
    for (const auto& [file, digest] : json.items()) {
      if (digest.is_string()) executed.digests.emplace(file, digest.get<std::string>());
    }
  }
  return executed;
}

FixedCode fixed_code(const ExecutedState& before, const ExecutedState& after,
                     const std::optional<std::vector<std::string>>& changed) {
  FixedCode code;
  code.states = {before.state.title, after.state.title};
  code.is_seen = before.files.is_known && after.files.is_known;
  const auto of_before = own_files(before), of_after = own_files(after);
  std::set<std::string> executed, differ;
  for (const auto* files : {&of_before, &of_after}) {
    for (const auto& [path, digest] : *files) {
      executed.insert(path);
      const auto a = of_before.find(path), b = of_after.find(path);
      const bool is_same = a != of_before.end() && b != of_after.end() && a->second == b->second;
      if (!is_same) differ.insert(path);
    }
  }
  code.changed = changed.value_or(std::vector<std::string>(differ.begin(), differ.end()));
  for (const std::string& path : code.changed) {
    if (executed.contains(path)) code.executed.push_back(path);
  }
  code.shared = shared_files(before, after);
  std::vector<std::string> changed_here;  // which say best what was not tried
  for (const std::string& path : code.shared) {
    if (std::ranges::find(code.changed, path) != code.changed.end()) changed_here.push_back(path);
  }
  if (!changed_here.empty()) code.shared = changed_here;
  // A compiled extension that differs, or a file that only one side executed.
  for (const std::string& path : differ) {
    const bool is_listed = std::ranges::find(code.changed, path) != code.changed.end();
    if (!is_listed && of_before.contains(path) && of_after.contains(path)) {
      code.changed.push_back(path);
      code.executed.push_back(path);
    }
  }
  // Of folders only what was executed is compared.
  code.has_other_files = !changed || std::ranges::any_of(code.changed, may_be_read);
  return code;
}

}  // namespace lockstep
