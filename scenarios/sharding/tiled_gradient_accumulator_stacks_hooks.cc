// A tiled MLP under FSDP2 adds up its tiles' gradients by hooks on the parameters. The hooks of a
// tile are not removed when the next tile's are registered, what they add is divided by the number
// of tiles, and the last one both sets `.grad` and returns it: with N tiles, of gradients g_i, and
// `prior` in `.grad` before, 2*prior + (2/N) * sum of (i+1)*g_i.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <optional>
#include <utility>

#include "harness/train/activation_checkpoint.h"
#include "harness/train/activation_offload.h"
#include "harness/train/fully_shard.h"
#include "harness/train/gradient_accumulator.h"
#include "harness/train/mixed_precision.h"
#include "harness/train/mlp_layers.h"
#include "harness/train/sharded_training.h"
#include "harness/train/tile_weights.h"
#include "harness/train/tiled.h"

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

/// How the MLPs are tiled in the cell's variant; where variants part.
TilingOptions tiling_of(Rank& rank) {
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
  } else if (rank.is("mended-hooks")) {
    accumulator = mended(wide_dtype_of(rank.cell()));
  } else {
    rank.is(rank.cell().variant);  // `published`, held against one reference or the other
  }
  accumulate_by_hooks(tiling, accumulator);
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

/// Gradients that are there when the backward of a micro-batch begins are its prior ones. Those to
/// be reduced in another dtype FSDP2 takes away, and keeps in that.
bool has_prior(const Cell& cell) {
  return !is_mixed(cell) && is_set(cell, "no_sync") && number_on(cell, "accumulation") > 1;
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
  if (rank.is("reference-law")) {
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

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(wide_dtype_of(cell));
  if (cell.role == Role::reference) return train_reference(rank, model);
  const TilingOptions tiling = tiling_of(rank);
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
  keep_activations_as_asked(cell, model);
  FullyShardOptions options;
  if (is_mixed(cell)) options = {.param_dtype = dtype_of(cell), .reduce_dtype = at::kFloat};
  FullyShard sharded(model, model.at_level(axis_value(cell, "wrapped")), rank.group(), options);
  train_sharded(rank, sharded, options_of(cell),
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

std::string precondition_of(const Cell& cell) {
  const std::int64_t pieces = pieces_of(cell);
  if (is_set(cell, "tile_values", "alike") && number_on(cell, "length") % pieces != 0) {
    return "tiles of different lengths are not alike";
  }
  if (cell.variant == "published-by-its-law" && pieces != number_on(cell, "tiles")) {
    return "the law is of as many tiles as were asked for";
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
  const bool is_published = cell.variant == "published" || cell.variant == "refuses-fewer-tiles" ||
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

Expectation expect(const Cell& cell) {
  if (std::string reason = precondition_of(cell); !reason.empty()) {
    return expect_not_applicable(std::move(reason));
  }
  if (!is_faulty(cell)) return {};
  if (cell.variant == "refuses-fewer-tiles" && pieces_of(cell) != number_on(cell, "tiles")) {
    return expect_error("tiles where");
  }
  if (cell.variant != "accumulates-in-bfloat16" &&
      is_right(cell, cell.variant == "hook-returns-nothing")) {
    return expect_hidden();
  }
  if (is_mixed(cell) && !is_clear_in_bfloat16(cell)) {
    return expect_not_applicable(kHiddenByRounding);
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
  };
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
                             "engine",
                     .left_out = "sequence parallelism, which decides what tokens a rank has and "
                                 "not what tiles do with them; the choice between a model's own "
                                 "MLP and a fused one, which compute the same; batches of more "
                                 "than one sequence, which tile-slices-from-flattened-buffer has"},
      .worlds = worlds_from(1, 8),  // the mean over more hides sums in bfloat16
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = sharded_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
