#pragma once

#include <string>

#include "reports/record/cell.h"

namespace lockstep {

// The condition `rows` of scenarios whose ranks form a mesh: its number of rows.

int rows_of_mesh(const Cell& cell);
/// Ranks of a row.
int columns_of_mesh(const Cell& cell);

/// Why the ranks of a cell do not fill the rows of its mesh; empty: they do.
std::string refuse_uneven_rows(const Cell& cell);

}  // namespace lockstep
