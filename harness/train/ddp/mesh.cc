#include "harness/train/ddp/mesh.h"

#include <fmt/format.h>

#include <vector>

#include "reports/base/error.h"

namespace lockstep {

MeshPlace place_in_mesh(int rank, int ranks, int columns) {
  if (columns < 1 || ranks % columns != 0) {
    throw internal_error(fmt::format("{} ranks make no rows of {}", ranks, columns));
  }
  return {rank / columns, rank % columns};
}

Mesh::Mesh(ProcessGroup& world, int columns)
    : place_(place_in_mesh(world.rank(), world.size(), columns)) {
  std::vector<int> beside, above_and_below;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto [row, column] = place_in_mesh(rank, world.size(), columns);
    if (row == place_.row) beside.push_back(rank);
    if (column == place_.column) above_and_below.push_back(rank);
  }
  row_ = world.subgroup(fmt::format("row {}", place_.row), beside);
  column_ = world.subgroup(fmt::format("column {}", place_.column), above_and_below);
}

}  // namespace lockstep
