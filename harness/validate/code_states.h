#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/pack/scratch_folder.h"
#include "harness/validate/git.h"

namespace lockstep {

/// A state of the code: a commit in a folder of its own, a folder, or an environment of Python.
struct CodeState {
  std::string title;                  ///< "v1 (3f2a1c9)", "../fixed", "python3 of /opt/new"
  std::string commit;                 ///< whole name; empty: it is none
  std::filesystem::path top;          ///< of its files
  std::filesystem::path folder;       ///< in which commands run
  std::filesystem::path environment;  ///< of Python; empty: the one on PATH
  std::vector<std::pair<std::string, std::string>> variables;  ///< of its commands

  /// Folders whose executed files are recorded: its own, and the user's checkout.
  std::vector<std::string> sources;
};

/// How the states of one command are made.
struct StateOptions {
  std::vector<std::string> with;  ///< ignored files and folders, brought from the checkout
  std::string build;  ///< a command of the shell, in an environment per state; empty: none
};

/// The states of one command. Folders that it makes lie in one for temporary files, and are removed
/// with this object; the user's checkout is not written to.
class CodeStates {
 public:
  explicit CodeStates(StateOptions options);
  ~CodeStates();
  CodeStates(const CodeStates&) = delete;
  CodeStates& operator=(const CodeStates&) = delete;

  /// `named`: a commit, a folder, or the interpreter of an environment. Throws Error (usage).
  CodeState open(const std::string& named);

  /// Files that differ between two commits; absent: one is none, so it is not known.
  std::optional<std::vector<std::string>> changed(const CodeState& before,
                                                  const CodeState& after) const;

  /// A folder for temporary files, removed with this object.
  const std::filesystem::path& scratch() const { return scratch_.path(); }

 private:
  CodeState open_commit(const std::string& named, const std::string& commit);
  void bring(const CodeState& state) const;
  void build(CodeState& state);

  StateOptions options_;
  std::filesystem::path here_;  ///< the working folder
  ScratchFolder scratch_;
  std::optional<Repository> repository_;
  std::vector<std::filesystem::path> worktrees_;
  int count_ = 0;  ///< of folders made
};

}  // namespace lockstep
