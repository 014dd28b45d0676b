// A tiled MLP under FSDP2 adds up its tiles' gradients by hooks on the parameters. The hooks of a
// tile are not removed when the next tile's are registered, what they add is divided by the number
// of tiles, and the last one both sets `.grad` and returns it: with N tiles, of gradients g_i, and
// `prior` in `.grad` before, 2*prior + (2/N) * sum of (i+1)*g_i. DDP and FSDP1 act behind the
// gradient of each tile, whatever hooks make of it: the accumulator puts nothing off for them.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/activation_offload.h"
#include "harness/train/autograd/gradient_accumulator.h"
#include "harness/train/autograd/tile_weights.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/sharded_training.h"
#include "harness/train/nn/mlp_layers.h"
#include "harness/train/optim/mixed_precision.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;

/// What is wrong with the accumulator, as far as the cell has it.
struct Causes {
  bool stacks = false;
  bool scales = false;
  bool returns = false;  ///< what it has set
};

Causes causes_of(const Cell& cell) {
  if (!has_axis(cell, "causes")) return {true, true, true};
  const std::string& causes = axis_value(cell, "causes");
  const auto has = [&](std::string_view cause) {
    return causes == "all" || causes.find(cause) != std::string::npos;
  };
  return {has("stacked"), has("scaled"), has("returned")};
}

/// In bfloat16 the model computes and no more: shards, what is reduced, and what hooks accumulate
/// in are wider.
bool is_mixed(const Cell& cell) { return dtype_of(cell) == at::kBFloat16; }
at::ScalarType wide_dtype_of(const Cell& cell) {
  return is_mixed(cell) ? at::kFloat : dtype_of(cell);
}

GradientAccumulatorOptions published(const Cell& cell) {
  const Causes causes = causes_of(cell);
  return {.removes_hooks = !causes.stacks,
          .scales = causes.scales,
          .hand_over = causes.returns ? HandOver::set_and_returned : HandOver::returned,
          .dtype = wide_dtype_of(cell)};
}

GradientAccumulatorOptions mended(at::ScalarType dtype) {
  return {.removes_hooks = true,
          .scales = false,
          .hand_over = HandOver::returned,
          .counts_pieces = true,
          .dtype = dtype};
}

bool is_under_ddp(const Cell& cell) { return cell.variant.starts_with("ddp-"); }
bool is_flat(const Cell& cell) { return cell.variant.starts_with("flat-"); }

/// How the MLPs are tiled in the cell's variant; where variants part. `listed`: the parameters of
/// the MLP that hooks find, once an engine has wrapped it; empty: its own.
TilingOptions tiling_of(Rank& rank, const HookedParameters& listed = {}) {
  TilingOptions tiling{.tiles = number_on(rank.cell(), "tiles"),
                       .cut = TileCut::chunked_sequence,
                       .slices = TileSlices::fixed_step};
  GradientAccumulatorOptions accumulator = published(rank.cell());
  if (rank.is("plain-tiles")) return tiling;
  if (rank.is("hook-returns-nothing")) {
    accumulator.hand_over = HandOver::set;
  } else if (rank.is("refuses-fewer-tiles")) {
    tiling.refuses_fewer_tiles = true;
  } else if (rank.is("cumulative-offsets")) {
    tiling.slices = TileSlices::cumulative_step;
  } else if (rank.is("accumulates-in-bfloat16")) {
    accumulator = mended(at::kBFloat16);
  } else if (rank.is("mended-hooks") || rank.is("ddp-mended-hooks") ||
             rank.is("ddp-mended-hooks-static-graph") || rank.is("flat-mended-hooks") ||
             rank.is("flat-whole-mended-hooks")) {
    accumulator = mended(wide_dtype_of(rank.cell()));
  } else {
    rank.is(rank.cell().variant);  // `published`, held against one reference or the other
  }
  accumulate_by_hooks(tiling, accumulator, listed);
  return tiling;
}

/// Tiles that torch.chunk gives.
std::int64_t pieces_of(const Cell& cell) {
  return chunk_pieces(number_on(cell, "length"), number_on(cell, "tiles"));
}

/// [1, length, features]; where all tiles are alike each has the same rows.
at::Tensor rows_of(Rank& rank, const MicroBatch& batch, std::uint64_t base, std::int64_t features) {
  const Cell& cell = rank.cell();
  const std::int64_t length = number_on(cell, "length");
  if (is_set(cell, "tile_values", "random")) {
    return normal_input(rank, batch, base, {1, length, features});
  }
  const std::int64_t pieces = pieces_of(cell);
  const at::Tensor tile = normal_input(rank, batch, base, {1, length / pieces, features});
  return at::cat(std::vector<at::Tensor>(static_cast<std::size_t>(pieces), tile), 1);
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Module& model) {
  const at::Tensor input = rows_of(rank, batch, 1'000'000, kModel.inputs);
  return (model(input) - rows_of(rank, batch, 2'000'000, 1)).pow(2).mean();
}

/// Gradients that are there when the backward of a micro-batch begins are its prior ones. FSDP2
/// takes away those that it has reduced, and those to be reduced in another dtype; where gradients
/// are whole on every rank they stay.
bool has_prior(const Cell& cell) {
  const bool stays = is_set(cell, "no_sync") || is_under_ddp(cell) || is_flat(cell) ||
                     cell.variant == "reference-law-whole";
  return !is_mixed(cell) && stays && number_on(cell, "accumulation") > 1;
}

/// The law: what the gradient of tile `tile` in micro-batch `batch` counts for.
double weight_of(const Cell& cell, std::int64_t batch, std::int64_t tile) {
  const Causes causes = causes_of(cell);
  double weight = causes.returns ? 2 : 1;
  if (causes.stacks) weight *= static_cast<double>(tile + 1);
  if (causes.scales) weight /= static_cast<double>(number_on(cell, "tiles"));
  if (!causes.returns || !has_prior(cell)) return weight;
  for (std::int64_t later = batch + 1; later < number_on(cell, "accumulation"); ++later)
    weight *= 2;
  return weight;
}

/// Steps so large that parameters show what an accumulator in bfloat16 does to gradients. A model
/// that computes in it would carry its roundings too far with them.
MicroBatchOptions options_of(const Cell& cell) {
  MicroBatchOptions options = micro_batch_options(cell);
  if (!is_mixed(cell)) options.learning_rate = 0.2;
  options.reference_adds_gradients = is_mixed(cell);
  return options;
}

void train_reference(Rank& rank, MlpLayers& master) {
  const Cell& cell = rank.cell();
  MlpLayers low(kModel, cpu_generator(rank.seed(0)));
  MlpLayers& model = is_mixed(cell) ? low : master;
  if (is_mixed(cell)) {
    low.to(dtype_of(cell));
    compute_with(low, master);
  }
  std::int64_t batch_index = 0;
  if (rank.is("reference-law") || rank.is("reference-law-whole")) {
    for (Module* mlp : model.mlps()) {
      weigh_tiles(*mlp, number_on(cell, "tiles"),
                  [&](std::int64_t tile) { return weight_of(cell, batch_index, tile); });
    }
  } else {
    rank.is("reference");
  }
  train_in_micro_batches(rank, master, options_of(cell),
                         [&](const MicroBatch& batch, auto* /*ddp*/) {
                           batch_index = batch.index;
                           return loss_of(rank, batch, model);
                         });
}

/// The level at which modules are wrapped: the MLP's where the variant is about that one.
std::string level_of(const Cell& cell) {
  return has_axis(cell, "wrapped") ? axis_value(cell, "wrapped") : "mlp";
}

/// What a trainer of long sequences does about the activations of a layer beside tiling its MLP.
void keep_activations_as_asked(const Cell& cell, MlpLayers& model) {
  if (is_set(cell, "activations", "kept")) return;
  const bool offloads = is_set(cell, "activations", "offloaded");
  for (Module* layer : model.at_level("layer")) {
    layer->wrap_calls([offloads](const at::Tensor& input, const Module::Forward& forward) {
      std::optional<OffloadScope> scope;
      if (offloads) scope.emplace();
      return checkpoint(SegmentOfOne(forward), input);
    });
  }
}

void train_under_ddp(Rank& rank, MlpLayers& model) {
  const TilingOptions tiling = tiling_of(rank);
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
  MicroBatchOptions options = options_of(rank.cell());
  options.ddp.static_graph = is_about(rank.cell(), "static-graph");
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor input = rows_of(rank, batch, 1'000'000, kModel.inputs);
    return (ddp->forward(input) - rows_of(rank, batch, 2'000'000, 1)).pow(2).mean();
  });
}

/// FSDP1 puts one flat parameter in the place of all that a wrapped module has: that is what hooks
/// find on the module itself, and nothing on its parts.
void train_flat(Rank& rank, MlpLayers& model) {
  const Cell& cell = rank.cell();
  std::unique_ptr<FlatShard> sharded;
  for (Module* mlp : model.mlps()) {
    tile_calls(*mlp, tiling_of(rank, [&sharded, mlp] { return sharded->listed_parameters(*mlp); }));
  }
  const FlatStrategy strategy =
      is_about(cell, "flat-whole") ? FlatStrategy::no_shard : FlatStrategy::full_shard;
  sharded =
      std::make_unique<FlatShard>(model, model.at_level(level_of(cell)), rank.group(), strategy);
  train_sharded(rank, *sharded, options_of(cell),
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(wide_dtype_of(cell));
  if (cell.role == Role::reference) return train_reference(rank, model);
  if (is_under_ddp(cell)) return train_under_ddp(rank, model);
  if (is_flat(cell)) return train_flat(rank, model);
  const TilingOptions tiling = tiling_of(rank);
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
  keep_activations_as_asked(cell, model);
  FullyShardOptions options;
  if (is_mixed(cell)) options = {.param_dtype = dtype_of(cell), .reduce_dtype = at::kFloat};
  FullyShard sharded(model, model.at_level(level_of(cell)), rank.group(), options);
  train_sharded(rank, sharded, options_of(cell),
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

std::string precondition_of(const Cell& cell) {
  const std::int64_t pieces = pieces_of(cell);
  if (is_set(cell, "tile_values", "alike") && number_on(cell, "length") % pieces != 0) {
    return "tiles of different lengths are not alike";
  }
  if (is_about(cell, "by-its-law") && pieces != number_on(cell, "tiles")) {
    return "the law is of as many tiles as were asked for";
  }
  if (is_mixed(cell) && (is_under_ddp(cell) || is_flat(cell))) {
    return "mixed precision is FSDP2's here";
  }
  if (is_about(cell, "static-graph") && is_set(cell, "no_sync") &&
      number_on(cell, "accumulation") > 1) {
    return kNoSyncWithStaticGraph;
  }
  return "";
}

/// Whether tiles without, and whatever is there before backward, count once.
bool is_right(const Cell& cell, bool counts_last_twice) {
  const std::int64_t tiles = number_on(cell, "tiles");
  if (pieces_of(cell) != tiles) return !has_prior(cell);  // what was accumulated is thrown away
  if (counts_last_twice) return is_set(cell, "tile_values", "alike") && tiles == 3;
  const Causes causes = causes_of(cell);
  if (has_prior(cell) && causes.returns) return false;
  if (causes.stacks && tiles > 1) return false;
  return (causes.returns ? 2 : 1) == (causes.scales ? tiles : 1);
}

/// Tiles that count four times on average, or more. That is seen even where they are alike, and
/// what is smaller is not everywhere.
bool is_clear_in_bfloat16(const Cell& cell) {
  const std::int64_t tiles = number_on(cell, "tiles");
  double sum = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) sum += weight_of(cell, 0, tile);
  return cell.variant == "published" && sum / static_cast<double>(tiles) >= 4;
}

/// What alike tiles, each of which has its share of the gradient, add up to: the mean of what they
/// count for.
double mean_weight(const Cell& cell) {
  const std::int64_t tiles = number_on(cell, "tiles");
  double sum = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) sum += weight_of(cell, 0, tile);
  return sum / static_cast<double>(tiles);
}

/// Whether the accumulator is the published one, in whatever variant, and what it makes of a
/// gradient a multiple of it.
bool is_multiple(const Cell& cell) {
  const bool is_published = is_about(cell, "published") || cell.variant == "refuses-fewer-tiles" ||
                            cell.variant == "cumulative-offsets";
  return is_published && !has_prior(cell) && is_set(cell, "tile_values", "alike") &&
         pieces_of(cell) == number_on(cell, "tiles");
}

/// Gradients of the MLPs are wrong from step 1 on: a multiple where all tiles are alike; else the
/// variant beside its law shows that nothing but the law is in them.
Pin pin_of(const Cell& cell) {
  Pin pin = wrong_gradients_of(cell, {"*.mlp.*"}, "tiles are drawn: published-by-its-law has it");
  if (cell.variant == "accumulates-in-bfloat16") {
    pin.ratio = about(1, 0.05);
    pin.why = "roundings to bfloat16";
  } else if (is_multiple(cell)) {
    pin.ratio = about(mean_weight(cell), is_mixed(cell) ? 0.02 : 1e-3);
    pin.cosine = Range{is_mixed(cell) ? 0.99 : 0.9999, 1.0001};
    pin.why.clear();
  }
  return pin;
}

/// Of hooks that nothing stops.
Expectation expect_values(const Cell& cell) {
  const bool is_hidden =
      is_about(cell, "mended-hooks") || is_right(cell, /*counts_last_twice=*/false);
  return is_hidden ? expect_hidden() : pinned(expect_wrong_shards(), {pin_of(cell)});
}

/// The reducer waits for other parameters when the hook of the first one runs again.
Expectation expect_under_ddp(const Cell& cell) {
  if (is_about(cell, "static-graph") || pieces_of(cell) == 1) return expect_values(cell);
  return expect_error(ddp_error::kReadyTwice);
}

/// The first tile's gradient is reduced and the parameters are released, unless all is whole. The
/// next tile makes a view of a weight; the layer's norm reads its own.
Expectation expect_flat(const Cell& cell) {
  const bool is_own_unit = level_of(cell) == "mlp";
  if (!is_about(cell, "flat-whole") && cell.world_size > 1) {
    if (pieces_of(cell) > 1) return expect_error(fully_shard_error::kViewOfReleased);
    if (!is_own_unit) return expect_error(fully_shard_error::kReleased);
  }
  return is_own_unit ? expect_values(cell) : expect_hidden();
}

Expectation expect(const Cell& cell) {
  if (std::string reason = precondition_of(cell); !reason.empty()) {
    return expect_not_applicable(std::move(reason));
  }
  if (!is_faulty(cell)) return {};
  if (is_under_ddp(cell)) return expect_under_ddp(cell);
  if (is_flat(cell)) return expect_flat(cell);
  if (cell.variant == "refuses-fewer-tiles" && pieces_of(cell) != number_on(cell, "tiles")) {
    return expect_error("tiles where");
  }
  if (cell.variant != "accumulates-in-bfloat16" &&
      is_right(cell, cell.variant == "hook-returns-nothing")) {
    return expect_hidden();
  }
  if (is_mixed(cell) && !is_clear_in_bfloat16(cell)) {
    const bool is_in_accumulator = cell.variant == "accumulates-in-bfloat16";
    return expect_not_applicable(hidden_by_rounding(is_in_accumulator ? 0 : 0.89));
  }
  return pinned(expect_wrong_shards(), {pin_of(cell)});
}

std::vector<Variant> variants() {
  return {
      {.name = "published",
       .role = Role::buggy,
       .summary = "FSDP2 and the accumulator as it was merged"},
      {.name = "published-by-its-law",
       .role = Role::latent,
       .summary = "FSDP2, the same beside its law, 2*prior + (2/N) * sum of (i+1)*g_i: nothing "
                  "else is wrong",
       .reference = "reference-law"},
      {.name = "hook-returns-nothing",
       .role = Role::wrong_fix,
       .summary = "FSDP2 and a reviewer's version: the last hook sets .grad and returns "
                  "nothing, and autograd adds the last tile to it",
       .without = {"causes"}},
      {.name = "refuses-fewer-tiles",
       .role = Role::wrong_fix,
       .summary = "FSDP2 and a reviewer's version: an error where there are fewer tiles than "
                  "asked for",
       .without = {"causes"}},
      {.name = "cumulative-offsets",
       .role = Role::wrong_fix,
       .summary = "FSDP2 and a reviewer's version: slices begin where those before end",
       .without = {"causes"}},
      {.name = "accumulates-in-bfloat16",
       .role = Role::wrong_fix,
       .summary = "FSDP2 and hooks that are right, and add up in bfloat16",
       .without = {"causes"}},
      {.name = "mended-hooks",
       .role = Role::fixed,
       .summary = "FSDP2 and hooks that are removed, do not divide, hand over once, and count "
                  "the tiles that there are",
       .without = {"causes"}},
      {.name = "plain-tiles",
       .role = Role::fixed,
       .summary = "FSDP2 and no hooks: it reduces when the wrapped module's backward has ended",
       .without = {"causes"}},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, untiled",
       .without = {"causes", "wrapped", "activations", "no_sync"}},
      {.name = "reference-law",
       .role = Role::reference,
       .summary = "one process that weighs tiles by the law",
       .without = {"wrapped", "activations"}},
      {.name = "reference-law-whole",
       .role = Role::reference,
       .summary = "the same where gradients of earlier micro-batches stay on every rank",
       .without = {"causes", "wrapped", "activations", "no_sync"}},
  };
}

std::vector<Variant> ddp_variants() {
  const std::vector<std::string> without{"causes", "wrapped", "activations"};
  return {
      {.name = "ddp-published",
       .role = Role::buggy,
       .summary = "DDP and the accumulator as it was merged, which its review expected to work: "
                  "hooks of the parameters still run once per tile",
       .without = without},
      {.name = "ddp-published-static-graph",
       .role = Role::wrong_fix,
       .summary = "DDP, the same with the error text's advice, a static graph: no error, and what "
                  "is wrong under FSDP2",
       .without = without},
      {.name = "ddp-published-static-graph-by-its-law",
       .role = Role::latent,
       .summary = "DDP, the same beside its law: nothing else is wrong",
       .reference = "reference-law-whole",
       .without = without},
      {.name = "ddp-mended-hooks",
       .role = Role::wrong_fix,
       .summary = "DDP and hooks that are right under FSDP2: they run once per tile, too",
       .without = without},
      {.name = "ddp-mended-hooks-static-graph",
       .role = Role::fixed,
       .summary = "DDP and hooks that are right, with a static graph, which counts their runs",
       .without = without},
  };
}

std::vector<Variant> flat_variants() {
  return {
      {.name = "flat-published",
       .role = Role::buggy,
       .summary = "FSDP1, FULL_SHARD, and the accumulator as it was merged: the first tile is "
                  "reduced, and the parameters are released",
       .without = {"causes", "activations"}},
      {.name = "flat-mended-hooks",
       .role = Role::wrong_fix,
       .summary = "FSDP1, FULL_SHARD, and hooks that are right under FSDP2: the same",
       .without = {"causes", "activations"}},
      {.name = "flat-whole-published",
       .role = Role::buggy,
       .summary = "FSDP1, NO_SHARD: no error, and what is wrong under FSDP2 where the MLP is "
                  "wrapped itself; else hooks find no parameter on it, and it is right",
       .without = {"causes", "activations"}},
      {.name = "flat-whole-published-by-its-law",
       .role = Role::latent,
       .summary = "FSDP1, NO_SHARD, the MLP wrapped, beside its law: nothing else is wrong",
       .reference = "reference-law-whole",
       .without = {"causes", "wrapped", "activations"}},
      {.name = "flat-whole-mended-hooks",
       .role = Role::fixed,
       .summary = "FSDP1, NO_SHARD, and hooks that are right",
       .without = {"causes", "activations"}},
  };
}

/// Where gradients are whole, ranks agree in them.
std::vector<Variant> all_variants() {
  std::vector<Variant> all = variants();
  for (const auto& more : {ddp_variants(), flat_variants()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  for (Variant& variant : all) {
    const bool is_whole =
        variant.name.starts_with("ddp-") || variant.name.starts_with("flat-whole-");
    if (!is_whole) continue;
    variant.claims = {kGradientsAgree, kParametersAgree};
  }
  return all;
}

std::vector<Axis> axes() {
  return {
      {"tiles", {"1", "2", "3", "4", "8"}, "4"},
      {"length", {"24", "9"}, "24"},
      {"tile_values", {"alike", "random"}, "alike"},
      {"causes",
       {"all", "stacked", "scaled", "returned", "stacked-scaled", "stacked-returned",
        "scaled-returned", "none"},
       "all"},
      {"wrapped", {"mlp", "layer", "root"}, "mlp"},
      {"accumulation", {"1", "2", "4"}, "1"},
      {"no_sync", {"off", "on"}, "off"},
      {"activations", {"kept", "checkpointed", "offloaded"}, "kept"},
      {"dtype", {"float32", "float64", "bfloat16"}, "float32"},
  };
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
                             "engine, and the review's question about DDP and FSDP1",
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
      .worlds = worlds_from(1, 8),  // the mean over more hides sums in bfloat16
      .steps = 3,
      .axes = axes(),
      .variants = all_variants(),
      .claims = sharded_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
