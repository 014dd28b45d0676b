#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Identity of a finding over runs: "gradients-differ | torchrun train.py | agree_across_ranks
/// gradient pre_step | encoder.weight". A tensor may be a pattern: "*.bias". It has no step, rank
/// or value, so it stays when a run is repeated. `label`: of the cell or job. One line; control
/// characters become `\x0a`.
std::string key_of(FindingKind kind, std::string_view label, const Claim& claim,
                   std::string_view tensor);

/// The keys of a finding: one, if all tensors that were compared in its first step break the claim
/// (`*`), or if a pattern names those that do; else one for each of them.
std::vector<std::string> keys_of(std::string_view label, const Finding& finding);

/// The label of a cell: its name without the repetition.
std::string label_of(const CellRecord& cell);

/// The label of a job: that of `watch --label`, or its training script. Its arguments, such as a
/// port, are in its title alone.
std::string label_of(const JobRecord& job);

/// The label of a comparison: that of B.
std::string label_of(const ComparedPair& pair);

/// The keys of the findings of a comparison, each once.
std::vector<std::string> keys_of(const ComparedPair& pair);

/// The keys of all findings of a run, of a fix those after it,
/// in the order of the record, each once.
std::vector<std::string> keys_of(const RunRecord& run);

/// A file for `--known`: a line each.
std::string lines_of_keys(const std::vector<std::string>& keys);

}  // namespace lockstep
