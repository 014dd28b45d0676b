#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// What is wrong with how the ranks of a job divide the samples of torch's DistributedSampler: each
/// pass has the order of the one before, parts of different orders, parts that no rank reads. The
/// ranks may agree all the same, so it is a note.
std::vector<std::string> sampler_notes(const JobRecord& job);

}  // namespace lockstep
