#pragma once

#include <string>
#include <string_view>

#include "reports/record/run_record.h"

namespace lockstep {

/// Whether `name` is what `pattern` says, in which a `*` stands for any text, none among it.
bool matches(std::string_view pattern, std::string_view name);

/// How a finding of `cell` departs from what `pin` declares of it: "expected ratio 2 (1.998 to
/// 2.002), found 1.7". Empty: it does not.
std::string departure(const Pin& pin, const Finding& finding, const CellRecord& cell);

/// What the expectation of a cell that is to show a fault leaves open and has to say, in words:
/// what the cell comes to, or by what the fault is known. Empty: nothing.
std::string open_part(const Expectation& expectation);

}  // namespace lockstep
