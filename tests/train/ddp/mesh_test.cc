#include "harness/train/ddp/mesh.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/comm/store_service.h"
#include "harness/launch/launch.h"
#include "harness/record/collective_log.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

TEST(PlaceInMesh, GoesRowByRow) {
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(place_in_mesh(rank, 6, 3).row, rank / 3) << rank;
    EXPECT_EQ(place_in_mesh(rank, 6, 3).column, rank % 3) << rank;
  }
}

TEST(PlaceInMesh, RefusesRowsThatAreNotFull) {
  EXPECT_THROW(place_in_mesh(0, 6, 4), Error);
  EXPECT_THROW(place_in_mesh(0, 6, 0), Error);
}

int sum_of_numbers(ProcessGroup& group, int mine) {
  at::Tensor sum = at::full({1}, mine, at::TensorOptions().dtype(at::kInt));
  group.all_reduce(sum, ReduceOp::sum);
  return sum.item<int>();
}

/// The sums over the groups of every rank, in meshes of `ranks`.
int wrong_groups(ProcessGroup& world, int columns) {
  const Mesh mesh(world, columns);
  const int rows = world.size() / columns;
  const auto [row, column] = mesh.place();
  int in_row = 0, in_column = 0;
  for (int i = 0; i < columns; ++i) in_row += row * columns + i;
  for (int i = 0; i < rows; ++i) in_column += i * columns + column;
  const bool is_right = mesh.row().size() == columns && mesh.column().size() == rows &&
                        mesh.row().rank() == column && mesh.column().rank() == row &&
                        sum_of_numbers(mesh.row(), world.rank()) == in_row &&
                        sum_of_numbers(mesh.column(), world.rank()) == in_column;
  return is_right ? 0 : 1;
}

/// Columns of a mesh of 4 ranks.
class MeshOfFour : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Columns, MeshOfFour, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

TEST_P(MeshOfFour, ReducesOverRowsAndColumns) {
  const TemporaryFolder folder;
  LaunchOptions launch;
  launch.ranks = 4;
  launch.folder = folder.path();
  launch.host = serve_store;
  const std::vector<RankExit> exits = launch_ranks(launch, [&](const RankPlacement& placement) {
    CollectiveLog log(collective_log_file(launch.folder, placement.rank), placement.rank);
    ProcessGroup world(placement, {}, log);
    return wrong_groups(world, GetParam());
  });
  for (const RankExit& end : exits) {
    EXPECT_TRUE(end.kind == ExitKind::finished && end.code == 0) << end.rank;
  }
}

}  // namespace
}  // namespace lockstep
