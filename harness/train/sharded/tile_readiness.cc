#include "harness/train/sharded/tile_readiness.h"

#include <algorithm>

#include "harness/train/sharded/parameter_attributes.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

bool is_marked(const at::Tensor& parameter, const std::vector<std::string>& markers) {
  return std::any_of(markers.begin(), markers.end(), [&](const std::string& marker) {
    return attribute(parameter, marker).has_value();
  });
}

}  // namespace

void tell_readiness(TilingOptions& tiling, const TileReadiness& readiness) {
  tiling.before_tile = [readiness, otherwise = tiling.before_tile](const TileTurn& turn) {
    const std::vector<at::Tensor>& parameters = *turn.parameters;
    const bool is_told =
        readiness.markers.empty() ||
        std::any_of(parameters.begin(), parameters.end(), [&](const at::Tensor& parameter) {
          return is_marked(parameter, readiness.markers);
        });
    if (!is_told) {
      if (otherwise) otherwise(turn);
      return;
    }
    const std::int64_t tiles = readiness.counts_pieces ? turn.pieces : turn.asked;
    for (const at::Tensor& parameter : parameters) {
      set_attribute(parameter, zero_attribute::kGradientIsReady, turn.tile + 1 == tiles ? 1 : 0);
    }
  };
}

}  // namespace lockstep
