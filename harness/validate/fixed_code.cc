#include "harness/validate/fixed_code.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// By path in the state.
std::map<std::string, std::string> own_files(const ExecutedState& side) {
  std::map<std::string, std::string> own;
  for (const auto& [file, digest] : side.execution.digests) {
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

/// Paths whose content differs, or that one side alone executed.
std::set<std::string> differing(const std::map<std::string, std::string>& before,
                                const std::map<std::string, std::string>& after) {
  std::set<std::string> differ;
  for (const auto& [files, others] : {std::pair(&before, &after), std::pair(&after, &before)}) {
    for (const auto& [path, digest] : *files) {
      const auto other = others->find(path);
      if (other == others->end() || other->second != digest) differ.insert(path);
    }
  }
  return differ;
}

bool is_in(const std::vector<std::string>& paths, const std::string& path) {
  return std::ranges::find(paths, path) != paths.end();
}

/// Executed by both sides in one place although each state has a file of that name: the package is
/// installed from one folder for both.
std::vector<std::string> shared_files(const ExecutedState& before, const ExecutedState& after) {
  std::vector<std::string> shared;
  if (before.state.top == after.state.top) return shared;  // they differ in their environments
  for (const auto& [file, digest] : before.execution.digests) {
    if (!after.execution.digests.contains(file)) continue;
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

std::string path_in(const CodeState& state, const std::string& file) {
  for (const fs::path& top : {state.top, state.environment}) {
    if (top.empty() || !file.starts_with(top.string() + "/")) continue;
    return file.substr(top.string().size() + 1);
  }
  return "";
}

FixedCode fixed_code(const ExecutedState& before, const ExecutedState& after,
                     const std::optional<std::vector<std::string>>& changed) {
  FixedCode code;
  code.states = {before.state.title, after.state.title};
  code.is_seen = before.execution.is_known && after.execution.is_known;
  const auto of_before = own_files(before), of_after = own_files(after);
  const std::set<std::string> differ = differing(of_before, of_after);
  code.changed = changed.value_or(std::vector<std::string>(differ.begin(), differ.end()));
  std::ranges::copy_if(code.changed, std::back_inserter(code.executed), [&](const auto& path) {
    return of_before.contains(path) || of_after.contains(path);
  });
  code.shared = shared_files(before, after);
  std::vector<std::string> changed_here;  // which say best what was not tried
  std::ranges::copy_if(code.shared, std::back_inserter(changed_here),
                       [&](const auto& path) { return is_in(code.changed, path); });
  // One that did not change is the same on both sides, whoever has it.
  if (changed || !changed_here.empty()) code.shared = changed_here;
  // A compiled extension that differs, which no commit has.
  for (const std::string& path : differ) {
    const bool is_of_both = of_before.contains(path) && of_after.contains(path);
    if (!is_of_both || is_in(code.changed, path)) continue;
    code.changed.push_back(path);
    code.executed.push_back(path);
  }
  // Of folders only what was executed is compared.
  code.has_other_files = !changed || std::ranges::any_of(code.changed, may_be_read);
  return code;
}

}  // namespace lockstep
