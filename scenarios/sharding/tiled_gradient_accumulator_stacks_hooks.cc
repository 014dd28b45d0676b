// A tiled MLP under FSDP2 adds its tiles' gradients by hooks on the parameters. The hooks of a tile
// stay when the next tile registers its own. Their sum is divided by the number of tiles, and the
// last hook both sets `.grad` and returns it. With N tiles of gradients g_i, and `prior` in `.grad`
// before, the result is 2*prior + (2/N) * sum of (i+1)*g_i.

#include <optional>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/activation_offload.h"
#include "harness/train/loop/accumulator_cells.h"

namespace lockstep {

namespace {

/// Long-sequence trainers also checkpoint each layer, and may offload its input.
void keep_activations_as_asked(const Rank& rank, MlpLayers& model) {
  if (rank.has("activations", "kept")) return;
  const bool offloads = rank.has("activations", "offloaded");
  for (Module* layer : model.at_level("layer")) {
    layer->wrap_calls([offloads](const at::Tensor& input, const Module::Forward& forward) {
      std::optional<OffloadScope> scope;
      if (offloads) scope.emplace();
      return checkpoint(SegmentOfOne(forward), input);
    });
  }
}

void train(Rank& rank) {
  train_with_accumulator(rank, [&](TiledMlps& mlps) {
    rank.at_branch();
    mlps.tile(accumulator_tiling(rank));
    keep_activations_as_asked(rank, mlps.model());
    mlps.shard();
  });
}

std::vector<Axis> axes() {
  return accumulator_axes({{"causes",
                            {"all", "stacked", "scaled", "returned", "stacked-scaled",
                             "stacked-returned", "scaled-returned", "none"},
                            "all"},
                           rank_axis("wrapped", {"mlp", "layer", "root"}, "mlp")},
                          {switch_axis("no_sync"),
                           rank_axis("activations", {"kept", "checkpointed", "offloaded"}, "kept"),
                           dtype_axis({"bfloat16"})});
}

}  // namespace

Scenario tiled_gradient_accumulator_stacks_hooks() {
  return {
      .summary =
          "A tiled MLP's gradients are accumulated by hooks that stack, divide, and pass the sum "
          "on twice: ranks agree on gradients of the wrong size and direction.",
      .origin =
          {"axolotl", "pull request #2950 (merged 2025-07-25)",
           "the accumulator, its hooks and slices, the reviewers' versions; tiles, checkpoints and "
           "offloading as in the example configurations",
           "sequence parallelism and sample packing: they choose a rank's tokens, not a tile's "
           "work; fused MLPs and losses: they compute the same; the validators: they refuse "
           "configurations; when the patch is applied: here before any engine; garbage collection "
           "at step 0: it changes no value; the accumulator's lock: one backward's hooks run in "
           "one "
           "thread; a copy of the earlier gradient: `.to()` of the same dtype aliases it, and "
           "`.grad` is dropped at once; larger batches: tile-slices-from-flattened-buffer"},
      .variants =
          {buggy("published", "the accumulator as merged, under FSDP2",
                 "engine=fsdp2 hooks=published", expect_published_hooks),
           latent("published-by-its-law",
                  "the same matches its formula 2*prior + (2/N) * sum of (i+1)*g_i: no other fault",
                  "engine=fsdp2 hooks=published law=compared")
               .compared_with("reference-law"),
           wrong_fix("hook-returns-nothing",
                     "a reviewer's version: the last hook sets .grad, and autograd adds the last "
                     "tile again",
                     "engine=fsdp2 hooks=published hands_over=set-only causes=all",
                     expect_last_tile_twice),
           wrong_fix("refuses-fewer-tiles",
                     "a reviewer's version: fewer tiles than asked for are an error",
                     "engine=fsdp2 hooks=published fewer_tiles=refused causes=all",
                     expect_published_hooks),
           wrong_fix("cumulative-offsets",
                     "a reviewer's version: each slice begins at the end of the previous one",
                     "engine=fsdp2 hooks=published tile_slices=cumulative-step causes=all",
                     expect_published_hooks),
           wrong_fix("accumulates-in-bfloat16", "correct hooks that accumulate in bfloat16",
                     "engine=fsdp2 hooks=mended sums_in=bfloat16 causes=all",
                     expect_sums_in_bfloat16),
           fixed("mended-hooks",
                 "hooks are removed after use, do not divide, pass on once, and count actual tiles",
                 "engine=fsdp2 hooks=mended causes=all"),
           fixed("plain-tiles",
                 "no hooks: FSDP2 reduces at the end of the wrapped module's backward",
                 "engine=fsdp2 hooks=none causes=all"),
           reference("reference", "one process, untiled", "causes=all no_sync=off"),
           reference("reference-law", "one process that weights tiles by the formula",
                     "law=weighed")},
      .worlds = worlds_from(1, 8),  // with more ranks, the mean hides sums in bfloat16
      .axes = axes(),
      .claims = sharded_claims(),
      .precondition = refuse_tiles,
      .body = train,
  };
}

}  // namespace lockstep
