#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/train/autograd/tiled.h"

namespace lockstep {

/// How the hook of the last tile delivers the accumulated gradient. Autograd then adds the hook's
/// return value to `.grad`.
///   set_and_returned   sets `.grad` and returns it, too: `.grad` is added to itself
///   set                sets `.grad`, and autograd adds the tile's own gradient
///   returned           clears `.grad` and returns it
enum class HandOver { set_and_returned, set, returned };

/// The defaults are those of the published fix.
struct GradientAccumulatorOptions {
  bool removes_hooks = false;  ///< before registering those of the next tile; otherwise they pile
                               ///< up
  bool scales = true;          ///< by 1 / number of tiles
  HandOver hand_over = HandOver::set_and_returned;
  bool counts_pieces = false;  ///< last tile: of the existing tiles; otherwise of the requested
                               ///< ones, which may never come
  at::ScalarType dtype = at::kFloat;  ///< dtype of the accumulation
};

/// Accumulates gradients over tiles with hooks on the parameters, which run before a gradient is
/// added to `.grad`. It is the class of that name in axolotl's tiled MLP.
///
/// The constructor takes the `.grad` of the parameters; each tile's hooks add that tile's gradient;
/// those of the last tile deliver the sum. The destructor removes the hooks, and an undelivered sum
/// is lost.
///
/// Source: axolotl's pull request #2950, "TiledMLP support for FSDP2" (2025-07).
class GradientAccumulator {
 public:
  GradientAccumulator(std::vector<at::Tensor> parameters,
                      const GradientAccumulatorOptions& options);
  ~GradientAccumulator();
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;

  /// Registers the hooks of the current tile.
  void install_hooks(const TileTurn& turn);

 private:
  struct Hook {
    at::Tensor parameter;
    unsigned place = 0;
  };
  at::Tensor accumulate(std::size_t parameter, const at::Tensor& gradient, double scale,
                        bool hands_over);
  void remove_hooks();

  std::vector<at::Tensor> parameters_;
  GradientAccumulatorOptions options_;
  std::vector<at::Tensor> sums_;  ///< by parameter, in `dtype`
  std::vector<Hook> hooks_;
};

/// The parameters that get hooks, queried when a backward begins. Those that require no gradient
/// are skipped.
using HookedParameters = std::function<std::vector<at::Tensor>()>;

/// Gives each backward of `tiling` its own accumulator, as in the original. Requires
/// backward_per_tile, in place. `parameters`: those that the module lists as its own after an
/// engine has wrapped it; empty: those that the tiles use.
void accumulate_by_hooks(TilingOptions& tiling, const GradientAccumulatorOptions& options,
                         HookedParameters parameters = {});

}  // namespace lockstep
