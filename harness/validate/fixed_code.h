#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/validate/code_states.h"
#include "harness/validate/job_execution.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// A state and what its jobs executed.
struct ExecutedState {
  const CodeState& state;
  const JobExecution& execution;
};

/// The path of an executed file in its state; empty: it is of none.
std::string path_in(const CodeState& state, const std::string& file);

/// What a fix changed and what of it was executed. `changed`: files that differ between two
/// commits, relative to their tops; absent: those of the executed ones that differ.
FixedCode fixed_code(const ExecutedState& before, const ExecutedState& after,
                     const std::optional<std::vector<std::string>>& changed);

}  // namespace lockstep
