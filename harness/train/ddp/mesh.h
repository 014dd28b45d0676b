#pragma once

#include <memory>

#include "harness/comm/process_group.h"

namespace lockstep {

/// A rank's place in a mesh of two dimensions. Like torch's DeviceMesh, it numbers ranks row by
/// row.
struct MeshPlace {
  int row = 0;
  int column = 0;
};

/// Throws Error (internal) unless `columns` divides `ranks`.
MeshPlace place_in_mesh(int rank, int ranks, int columns);

/// The ranks of a world in rows of `columns`, and this rank's groups: its row and its column. A
/// mesh of one row, or of one column, has groups of one rank.
class Mesh {
 public:
  /// All ranks of `world` call it, with the same `columns`, and once each: their groups have names.
  Mesh(ProcessGroup& world, int columns);

  const MeshPlace& place() const { return place_; }
  ProcessGroup& row() const { return *row_; }        ///< the ranks beside this one
  ProcessGroup& column() const { return *column_; }  ///< the ranks with its place in other rows

 private:
  MeshPlace place_;
  std::unique_ptr<ProcessGroup> row_, column_;
};

}  // namespace lockstep
