#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/train/autograd/tiled.h"

namespace lockstep {

/// How the hook of the last tile hands over what was accumulated. What it returns is what autograd
/// then adds to `.grad`.
///   set_and_returned   it is put into `.grad` and returned too: `.grad` is added to itself
///   set                it is put into `.grad`, and the tile's own gradient is added by autograd
///   returned           `.grad` is emptied, and it is returned
enum class HandOver { set_and_returned, set, returned };

/// The defaults are those of the published fix.
struct GradientAccumulatorOptions {
  bool removes_hooks = false;  ///< before those of the next tile are registered; else they stack
  bool scales = true;          ///< by 1 / number of tiles
  HandOver hand_over = HandOver::set_and_returned;
  bool counts_pieces = false;  ///< the last tile is that of those that there are; else that of
                               ///< those asked for, which may never come
  at::ScalarType dtype = at::kFloat;  ///< in which it accumulates
};

/// The accumulation of gradients over tiles by hooks on the parameters themselves, which run
/// before a gradient is added to `.grad`: the class of that name in axolotl's tiled MLP.
///
/// When it is made it takes what is in `.grad` of the parameters; each tile's hooks add that tile's
/// gradient; those of the last tile hand over. Its destructor removes the hooks, and what was not
/// handed over is lost.
///
/// Source: axolotl's pull request #2950, "TiledMLP support for FSDP2" (2025-07).
class GradientAccumulator {
 public:
  GradientAccumulator(std::vector<at::Tensor> parameters,
                      const GradientAccumulatorOptions& options);
  ~GradientAccumulator();
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;

  /// Registers the hooks of the tile whose turn it is.
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

/// The parameters that get hooks, asked for when a backward begins. Those that require no gradient
/// are passed over.
using HookedParameters = std::function<std::vector<at::Tensor>()>;

/// Adds to `tiling` that an accumulator of its own lives through each backward, as it does in the
/// original. Requires backward_per_tile, in place. `parameters`: what the module lists as its own
/// once an engine has wrapped it; empty: those that the tiles use.
void accumulate_by_hooks(TilingOptions& tiling, const GradientAccumulatorOptions& options,
                         HookedParameters parameters = {});

}  // namespace lockstep
