#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// About parameters that no rank trains, such as those of a teacher, a reference model or a mean of
/// the weights, of which ranks have others: from the beginning, or since several ranks changed
/// them. And about buffers of the trained model that all ranks have to share, such as masks, after
/// the last step. That may be meant, so it is a note. None of a job whose ranks divide the trained
/// model without saying so, or differ anyway.
std::vector<std::string> frozen_notes(const JobRecord& job);

}  // namespace lockstep
