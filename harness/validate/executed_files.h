#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/validate/code_states.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Files that the ranks of a job executed, as absolute paths, with their digests.
struct ExecutedFiles {
  std::map<std::string, std::string> digests;
  bool is_known = false;  ///< a rank said so

  void add(const ExecutedFiles& other);
};

/// Reads what the hooks of a job's ranks wrote: `rank-N.files.json`. `files`: of the job.
ExecutedFiles executed_files(const std::filesystem::path& files);

/// A state and what its jobs executed.
struct ExecutedState {
  const CodeState& state;
  ExecutedFiles files;
};

/// What a fix changed and what of it was executed. `changed`: files that differ between two
/// commits, relative to their tops; absent: those of the executed ones that differ.
FixedCode fixed_code(const ExecutedState& before, const ExecutedState& after,
                     const std::optional<std::vector<std::string>>& changed);

}  // namespace lockstep
