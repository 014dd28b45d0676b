#include "harness/train/loop/zero_cells.h"

#include <string>

#include "harness/train/loop/micro_batches.h"

namespace lockstep {

namespace {

int stage_of(const Cell& cell) {
  if (has_axis(cell, "stage")) return static_cast<int>(number_on(cell, "stage"));
  return cell.variant.at(std::string("zero-").size()) - '0';
}

}  // namespace

ZeroOptions zero_options(const Cell& cell) {
  ZeroOptions options{.stage = stage_of(cell)};
  if (is_set(cell, "bucket", "small")) options.reduce_bucket_size = 1;
  return options;
}

bool does_zero_miscount_tiles(const Cell& cell) {
  if (number_on(cell, "tiles") == 1) return false;
  const bool is_small = is_set(cell, "bucket", "small");
  if (stage_of(cell) == 3) return is_small || number_on(cell, "accumulation") > 1;
  return stage_of(cell) == 2 && is_small && cell.world_size > 1;
}

}  // namespace lockstep
