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
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    mlps.tile(accumulator_tiling(rank));
    keep_activations_as_asked(rank, mlps.model());
    mlps.shard();
  }
  train_with_accumulator(rank, mlps);
}

std::vector<Variant> variants() {
  return {
      {"published", Role::buggy, "FSDP2 and the accumulator as it was merged",
       "engine=fsdp2 hooks=published", expect_published_hooks},
      {"published-by-its-law",
       Role::latent,
       "FSDP2, the same beside its law, 2*prior + (2/N) * sum of (i+1)*g_i: nothing else is wrong",
       "engine=fsdp2 hooks=published law=compared",
       {},
       "reference-law"},
      {"hook-returns-nothing", Role::wrong_fix,
       "FSDP2 and a reviewer's version: the last hook sets .grad and returns nothing, and autograd "
       "adds the last tile to it",
       "engine=fsdp2 hooks=published hands_over=set-only causes=all", expect_last_tile_twice},
      {"refuses-fewer-tiles", Role::wrong_fix,
       "FSDP2 and a reviewer's version: an error where there are fewer tiles than asked for",
       "engine=fsdp2 hooks=published fewer_tiles=refused causes=all", expect_published_hooks},
      {"cumulative-offsets", Role::wrong_fix,
       "FSDP2 and a reviewer's version: slices begin where those before end",
       "engine=fsdp2 hooks=published tile_slices=cumulative-step causes=all",
       expect_published_hooks},
      {"accumulates-in-bfloat16", Role::wrong_fix,
       "FSDP2 and hooks that are right, and add up in bfloat16",
       "engine=fsdp2 hooks=mended sums_in=bfloat16 causes=all", expect_sums_in_bfloat16},
      {"mended-hooks", Role::fixed,
       "FSDP2 and hooks that are removed, do not divide, hand over once, and count the tiles that "
       "there are",
       "engine=fsdp2 hooks=mended causes=all"},
      {"plain-tiles", Role::fixed,
       "FSDP2 and no hooks: it reduces when the wrapped module's backward has ended",
       "engine=fsdp2 hooks=none causes=all"},
      {"reference", Role::reference, "one process, untiled", "causes=all no_sync=off"},
      {"reference-law", Role::reference, "one process that weighs tiles by the law", "law=weighed"},
  };
}

std::vector<Axis> axes() {
  std::vector<Axis> axes = accumulator_axes({
      {"causes",
       {"all", "stacked", "scaled", "returned", "stacked-scaled", "stacked-returned",
        "scaled-returned", "none"},
       "all"},
      {.name = "wrapped",
       .values = {"mlp", "layer", "root"},
       .default_value = "mlp",
       .in_reference = false},
  });
  axes.push_back(switch_axis("no_sync"));
  axes.push_back({.name = "activations",
                  .values = {"kept", "checkpointed", "offloaded"},
                  .default_value = "kept",
                  .in_reference = false});
  axes.push_back({"dtype", {"float32", "float64", "bfloat16"}, "float32"});
  return axes;
}

}  // namespace

Scenario tiled_gradient_accumulator_stacks_hooks() {
  return {
      .id = "tiled-gradient-accumulator-stacks-hooks",
      .summary =
          "A tiled MLP's gradients are added up by hooks that stack, divide and hand over "
          "twice: ranks train alike, with gradients of the wrong size and direction.",
      .provenance = {.project = "axolotl",
                     .link = "pull request #2950 (merged 2025-07-25)",
                     .kept = "the accumulator, its hooks and slices, and the versions that "
                             "reviewers asked for; of the example configurations the number of "
                             "tiles, checkpoints and offloaded activations; FSDP2 as the "
                             "engine",
                     .left_out =
                         "sequence parallelism and sample packing, which decide what tokens "
                         "a rank has and not what tiles do with them; the choice between a "
                         "model's own MLP and a fused one, and tiled or fused losses, "
                         "which compute the same; the validators, one that refuses a fused "
                         "MLP beside a tiled one and the removed one that demanded "
                         "DeepSpeed: they refuse configurations, and what they let through "
                         "is here; when the patch is applied: calls are wrapped before any "
                         "engine; garbage collection at step 0, which frees memory and "
                         "changes no value; the accumulator's lock: the hooks of one "
                         "backward run in one thread; a copy of the gradient that is there "
                         "before (`.to()` of the same dtype is an alias): `.grad` is "
                         "dropped at once, and nobody else reads it; batches of more than "
                         "one sequence, which tile-slices-from-flattened-buffer has"},
      .worlds = worlds_from(1, 8),  // with more ranks, the mean hides sums in bfloat16
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = sharded_claims(),
      .precondition = refuse_tiles,
      .body = train,
  };
}

}  // namespace lockstep
