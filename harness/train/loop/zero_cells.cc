#include "harness/train/loop/zero_cells.h"

namespace lockstep {

ZeroOptions zero_options(const Rank& rank) {
  ZeroOptions options{.stage = static_cast<int>(rank.number("stage"))};
  if (rank.has("bucket", "small")) options.reduce_bucket_size = 1;
  return options;
}

bool does_zero_miscount_tiles(const Cell& cell) {
  if (number_on(cell, "tiles") == 1) return false;
  const bool is_small = is_set(cell, "bucket", "small");
  const std::int64_t stage = number_on(cell, "stage");
  if (stage == 3) return is_small || number_on(cell, "accumulation") > 1;
  return stage == 2 && is_small && cell.world_size > 1;
}

}  // namespace lockstep
