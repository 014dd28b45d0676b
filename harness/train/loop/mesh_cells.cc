#include "harness/train/loop/mesh_cells.h"

namespace lockstep {

int rows_of_mesh(const Cell& cell) { return static_cast<int>(number_on(cell, "rows")); }

int columns_of_mesh(const Cell& cell) { return cell.world_size / rows_of_mesh(cell); }

std::string refuse_uneven_rows(const Cell& cell) {
  if (cell.world_size % rows_of_mesh(cell) == 0) return "";
  return "the ranks do not fill the rows of the mesh";
}

}  // namespace lockstep
