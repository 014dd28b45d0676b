#include "harness/validate/changed_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/whole_file.h"
#include "harness/validate/git.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

struct Hunk {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// "12,3" or "12".
std::optional<Hunk> hunk_of(std::string_view text) {
  Hunk hunk{0, 1};
  const char* const end = text.data() + text.size();
  const auto begin = std::from_chars(text.data(), end, hunk.begin);
  if (begin.ec != std::errc()) return std::nullopt;
  if (begin.ptr == end) return hunk;
  const auto count = std::from_chars(begin.ptr + 1, end, hunk.count);
  return count.ec == std::errc() && count.ptr == end ? std::optional(hunk) : std::nullopt;
}

void add(const std::optional<Hunk>& hunk, std::set<std::int64_t>& lines) {
  if (!hunk) return;
  for (std::int64_t i = 0; i < hunk->count; ++i) lines.insert(hunk->begin + i);
}

/// "@@ -12,3 +12 @@ def f():" of `git diff --unified=0`.
void add_hunk(const std::string& line, std::set<std::int64_t>& removed,
              std::set<std::int64_t>& added) {
  std::istringstream words(line);
  std::string mark, before, after;
  words >> mark >> before >> after;
  if (mark != "@@" || !before.starts_with('-') || !after.starts_with('+')) return;
  add(hunk_of(std::string_view(before).substr(1)), removed);
  add(hunk_of(std::string_view(after).substr(1)), added);
}

/// A file of a state; empty: it has none of this path.
fs::path file_in(const CodeState& state, const std::string& path) {
  for (const fs::path& top : {state.top, state.environment}) {
    if (!top.empty() && fs::is_regular_file(top / path)) return top / path;
  }
  return {};
}

/// Lines of code that were not executed: "3-5". A row goes on over lines that are no code, but not
/// over those that were executed.
std::vector<std::string> missing_rows(const TracedLines& traced) {
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  bool goes_on = false;
  for (const std::int64_t line : traced.code) {
    const bool is_missing = !traced.executed.contains(line);
    if (is_missing && goes_on) rows.back().second = line;
    if (is_missing && !goes_on) rows.emplace_back(line, line);
    goes_on = is_missing;
  }
  std::vector<std::string> texts;
  for (const auto& [first, last] : rows) {
    texts.push_back(first == last ? std::to_string(first) : fmt::format("{}-{}", first, last));
  }
  return texts;
}

std::int64_t count_executed(const TracedLines& traced) {
  return std::ranges::count_if(traced.code,
                               [&](std::int64_t line) { return traced.executed.contains(line); });
}

}  // namespace

LineChanges changed_lines(const ExecutedState& before, const ExecutedState& after,
                          const FixedCode& code, const fs::path& scratch) {
  LineChanges changes;
  for (const std::string& path : code.executed) {
    const fs::path old = file_in(before.state, path), recent = file_in(after.state, path);
    if (fs::path(path).extension() != ".py" || old.empty() || recent.empty()) continue;
    const ProgramOutput diff =
        run_program({"git", "diff", "--no-index", "--no-color", "--no-ext-diff", "--unified=0",
                     "--", old.string(), recent.string()},
                    scratch, scratch / "git.log");
    std::istringstream lines(diff.text);
    for (std::string line; std::getline(lines, line);) {
      add_hunk(line, changes.removed[old.string()], changes.added[recent.string()]);
    }
  }
  std::erase_if(changes.removed, [](const auto& file) { return file.second.empty(); });
  std::erase_if(changes.added, [](const auto& file) { return file.second.empty(); });
  return changes;
}

void write_lines(const fs::path& path, const LinesOfFiles& lines) {
  write_whole_file(path, nlohmann::json(lines).dump());
}

ChangedLines changed_lines_in(const JobExecution& execution, const CodeState& state) {
  ChangedLines lines;
  for (const auto& [file, traced] : execution.lines) {
    lines.count += static_cast<std::int64_t>(traced.code.size());
    const std::vector<std::string> rows = missing_rows(traced);
    for (const std::string& row : rows) {
      lines.missing.push_back(fmt::format("{}:{}", path_in(state, file), row));
    }
    lines.executed += count_executed(traced);
  }
  return lines;
}

}  // namespace lockstep
