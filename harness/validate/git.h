#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What a program printed, and its exit status.
struct ProgramOutput {
  int status = 0;
  std::string text;  ///< standard output and error

  bool is_good() const { return status == 0; }
};

/// How an interruption of this process reaches a program.
enum class Signals { passed_on, kept };

/// Runs a program in `folder` to its end, with `log` for its output. Throws Error (usage) if it
/// cannot be started.
ProgramOutput run_program(const std::vector<std::string>& words,
                          const std::filesystem::path& folder, const std::filesystem::path& log,
                          Signals signals = Signals::passed_on);

/// The repository that a folder is in, by the program `git`, which runs none of its hooks.
class Repository {
 public:
  /// Absent: `folder` is in none. `scratch`: a folder for the output of git. Throws Error (usage)
  /// without git.
  static std::optional<Repository> around(const std::filesystem::path& folder,
                                          const std::filesystem::path& scratch);

  const std::filesystem::path& top() const { return top_; }

  /// The whole name of a commit; empty: nothing is called so.
  std::string commit_called(const std::string& name) const;

  /// Whether it lacks commits of the one that it is a clone of.
  bool is_shallow() const;

  /// Checks a commit out in a new folder, with its submodules. Throws Error (usage).
  void add_worktree(const std::filesystem::path& folder, const std::string& commit) const;

  /// Removes it from the repository's list, and its files. Never throws.
  void remove_worktree(const std::filesystem::path& folder) const;

  /// Files whose content differs between two commits, relative to the top, ascending.
  std::vector<std::string> changed(const std::string& before, const std::string& after) const;

 private:
  Repository(std::filesystem::path top, std::filesystem::path scratch)
      : top_(std::move(top)), scratch_(std::move(scratch)) {}

  ProgramOutput git(const std::vector<std::string>& words,
                    Signals signals = Signals::passed_on) const;

  std::filesystem::path top_;
  std::filesystem::path scratch_;
};

}  // namespace lockstep
