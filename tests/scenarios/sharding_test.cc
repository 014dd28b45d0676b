// Additional promises of the scenarios about sharded models.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "harness/record/snapshots.h"
#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kAccumulator = "tiled-gradient-accumulator-stacks-hooks";

/// Whether any gradient of the one-rank reference in step 1 cannot be represented in bfloat16, the
/// dtype of the computation.
bool is_finer_than_bfloat16(int accumulation) {
  const TemporaryFolder folder;
  const Outcome outcome = run_shell(fmt::format(
      "{} run {}/plain-tiles --ranks 1 --steps 1 --set dtype=bfloat16 --set tile_values=random "
      "--set accumulation={} --out {}/run",
      LOCKSTEP_PROGRAM, kAccumulator, accumulation, folder.path().string()));
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  int tensors = 0;
  bool is_finer = false;
  const auto references = folder.path() / "run" / kAccumulator / "reference";
  for (const auto& cell : std::filesystem::directory_iterator(references)) {
    for (const auto& [key, tensor] : read_safetensors(snapshot_file(cell.path(), 0, 1))) {
      if (key.find("gradient") == std::string::npos || tensor.dtype != DType::float32) continue;
      ++tensors;
      for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(std::uint32_t)) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, tensor.bytes.data() + at, sizeof(bits));
        is_finer = is_finer || (bits & 0xffffU) != 0;
      }
    }
  }
  EXPECT_GT(tensors, 0);
  return is_finer;
}

TEST(MixedPrecisionReference, ComputesInBfloat16) { EXPECT_FALSE(is_finer_than_bfloat16(1)); }

TEST(MixedPrecisionReference, AddsMicroBatchesInFloat32) { EXPECT_TRUE(is_finer_than_bfloat16(2)); }

}  // namespace
}  // namespace lockstep
