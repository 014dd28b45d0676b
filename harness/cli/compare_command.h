#pragma once

#include <string>

namespace lockstep {

/// `lockstep compare TABLE.csv DIR`: holds a published table against the run in `folder`, to the
/// printed digit. Returns 0 when every value is met, 1 otherwise.
int compare_command(const std::string& table_file, const std::string& folder);

}  // namespace lockstep
