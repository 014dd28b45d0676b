#pragma once

#include <string>

#include "reports/base/exit_status.h"

namespace lockstep {

/// `lockstep compare TABLE.csv DIR`: holds a published table against the run in `folder`, to the
/// printed digit. Returns `as_expected` when every value is met, `not_applicable` when there is
/// none.
ExitStatus compare_command(const std::string& table_file, const std::string& folder);

}  // namespace lockstep
