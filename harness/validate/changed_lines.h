#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/validate/fixed_code.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Numbers of lines, by the absolute path of their file.
using LinesOfFiles = std::map<std::string, std::set<std::int64_t>>;

/// Lines of executed sources that differ between two states.
struct LineChanges {
  LinesOfFiles removed;  ///< of the state before
  LinesOfFiles added;    ///< of the one after it
};

/// Those of the sources of Python in `FixedCode::executed` that both states have. `scratch`: a
/// folder for the output of git. Throws Error (usage) without git.
LineChanges changed_lines(const ExecutedState& before, const ExecutedState& after,
                          const FixedCode& code, const std::filesystem::path& scratch);

/// Writes lines to look for, as the hook reads them. Throws Error (io).
void write_lines(const std::filesystem::path& path, const LinesOfFiles& lines);

/// What a job that looked for them executed. `state`: whose files they are.
ChangedLines changed_lines_in(const JobExecution& execution, const CodeState& state);

}  // namespace lockstep
