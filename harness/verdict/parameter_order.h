#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// "ranks 0 and 1 have the 8 parameters of the model in different orders, and DDP pairs them by
/// their places"; empty: they do not.
std::string other_order_in_words(const JobRecord& job);

}  // namespace lockstep
