#pragma once

#include <cstddef>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Drift and norms of all steps of a table as sparklines, a line for each of its groups, at most
/// `width` columns: "BUGGY ▂▄▅▇█ up to 0.133". Empty for tables of single elements.
std::string table_sparklines(const Table& table, std::size_t width);

}  // namespace lockstep
