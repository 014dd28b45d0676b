#include "harness/validate/git.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include "harness/job/job_process.h"
#include "harness/launch/launcher.h"
#include "harness/launch/probe.h"
#include "reports/base/error.h"
#include "reports/base/regular_file.h"
#include "reports/base/usage_error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostOutput = 64 << 20;

/// Hooks of the repository are not for copies that nobody works in.
const std::vector<std::string> kGit{"git", "-c", "core.hooksPath=/dev/null", "-c",
                                    "advice.detachedHead=false"};

std::vector<std::string> git_words(const std::vector<std::string>& words) {
  std::vector<std::string> all = kGit;
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::string without_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

ProgramOutput run_program(const std::vector<std::string>& words, const fs::path& folder,
                          const fs::path& log, Signals signals) {
  std::error_code missing;
  fs::remove(log, missing);
  JobProcess process(words, {}, {folder, log});
  const JobEnd end = signals == Signals::kept ? process.wait_for_cleanup() : process.wait([] {});
  return {end.status, read_text(log, kMostOutput)};
}

std::optional<Repository> Repository::around(const fs::path& folder, const fs::path& scratch) {
  if (find_program("git").empty()) {
    throw Error(Error::Kind::usage, "git is not on PATH. Install it, or name folders as states.");
  }
  const ProgramOutput top =
      run_program(git_words({"rev-parse", "--show-toplevel"}), folder, scratch / "git.log");
  if (!top.is_good()) return std::nullopt;
  return Repository(without_end(top.text), scratch);
}

ProgramOutput Repository::git(const std::vector<std::string>& words, Signals signals) const {
  return run_program(git_words(words), top_, scratch_ / "git.log", signals);
}

std::string Repository::commit_called(const std::string& name) const {
  if (name.starts_with('-')) return "";
  const ProgramOutput found =
      git({"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
  return found.is_good() ? without_end(found.text) : "";
}

bool Repository::is_shallow() const {
  return without_end(git({"rev-parse", "--is-shallow-repository"}).text) == "true";
}

void Repository::add_worktree(const fs::path& folder, const std::string& commit) const {
  ProgramOutput made = git({"worktree", "add", "--force", "--detach", folder.string(), commit});
  if (made.is_good() && fs::exists(folder / ".gitmodules")) {
    made = run_program(git_words({"submodule", "update", "--init", "--recursive"}), folder,
                       scratch_ / "git.log");
  }
  if (made.is_good()) return;
  throw Error(
      Error::Kind::usage,
      fmt::format("{} cannot be checked out: {}. See whether `git worktree add` works here.",
                  commit, first_line(made.text)));
}

void Repository::remove_worktree(const fs::path& folder) const {
  try {
    git({"worktree", "remove", "--force", "--force", folder.string()}, Signals::kept);
    std::error_code missing;
    fs::remove_all(folder, missing);
    git({"worktree", "prune"}, Signals::kept);
  } catch (const std::exception&) {  // the folder is in that for temporary files
  }
}

std::vector<std::string> Repository::changed(const std::string& before,
                                             const std::string& after) const {
  const ProgramOutput names =
      git({"diff", "--name-only", "--no-renames", "-z", before, after, "--"});
  if (!names.is_good()) {
    throw Error(Error::Kind::usage, fmt::format("The changed files are unknown: git diff: {}.",
                                                first_line(names.text)));
  }
  std::vector<std::string> files;
  std::istringstream text(names.text);
  for (std::string file; std::getline(text, file, '\0');) files.push_back(file);
  std::ranges::sort(files);
  return files;
}

}  // namespace lockstep
