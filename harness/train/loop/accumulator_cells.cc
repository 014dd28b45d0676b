#include "harness/train/loop/accumulator_cells.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <string_view>
#include <utility>

namespace lockstep {

namespace {

/// The accumulator's faults in this cell.
struct Causes {
  bool stacks = false;
  bool scales = false;
  bool returns = false;  ///< its own gradient
};

Causes causes_of(const Cell& cell) {
  if (!has_axis(cell, "causes")) return {true, true, true};
  const std::string& causes = axis_value(cell, "causes");
  const auto has = [&](std::string_view cause) {
    return causes == "all" || causes.find(cause) != std::string::npos;
  };
  return {has("stacked"), has("scaled"), has("returned")};
}

GradientAccumulatorOptions published_hooks(const Cell& cell) {
  const Causes causes = causes_of(cell);
  return {.removes_hooks = !causes.stacks,
          .scales = causes.scales,
          .hand_over = causes.returns ? HandOver::set_and_returned : HandOver::returned,
          .dtype = wide_dtype_of(cell)};
}

GradientAccumulatorOptions mended_hooks(at::ScalarType dtype) {
  return {.removes_hooks = true,
          .scales = false,
          .hand_over = HandOver::returned,
          .counts_pieces = true,
          .dtype = dtype};
}

/// Prior gradients exist when the backward of a micro-batch begins. FSDP2 removes those that it has
/// reduced, and those that it will reduce in another dtype. Gradients that are whole on every rank
/// stay.
bool has_prior(const Cell& cell) {
  const bool stays = is_set(cell, "no_sync") || is_set(cell, "gradients", "stay");
  return !is_mixed(cell) && stays && number_on(cell, "accumulation") > 1;
}

/// The predicted weight of the gradient of `tile` in micro-batch `batch`.
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

/// If tiles are alike, each has an equal share of the gradient. Their sum is the mean of the
/// weights.
double mean_weight(const Cell& cell) {
  const std::int64_t tiles = number_on(cell, "tiles");
  double sum = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) sum += weight_of(cell, 0, tile);
  return sum / static_cast<double>(tiles);
}

/// [1, length, features]; if all tiles are alike, each has the same rows.
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

/// Whether every tile and every prior gradient counts once.
bool is_right(const Cell& cell) {
  const std::int64_t tiles = number_on(cell, "tiles");
  if (pieces_of(cell) != tiles) return !has_prior(cell);  // the accumulated sum is lost
  const Causes causes = causes_of(cell);
  if (has_prior(cell) && causes.returns) return false;
  if (causes.stacks && tiles > 1) return false;
  return (causes.returns ? 2 : 1) == (causes.scales ? tiles : 1);
}

/// Gradients of the MLPs are wrong from step 1 on: a multiple if all tiles are alike. Otherwise a
/// second variant with the predicted formula shows that they match it.
Pin pin_of(const Cell& cell, bool is_published) {
  Pin pin = wrong_gradients_of(cell, {"*.mlp.*"},
                               "tiles are random: published-by-its-law shows the formula");
  const bool is_multiple = is_published && !has_prior(cell) &&
                           is_set(cell, "tile_values", "alike") &&
                           pieces_of(cell) == number_on(cell, "tiles");
  if (!is_multiple) return pin;
  pin.ratio = about(mean_weight(cell), is_mixed(cell) ? 0.02 : 1e-3);
  pin.cosine = Range{is_mixed(cell) ? 0.99 : 0.9999, 1.0001};
  pin.why.clear();
  return pin;
}

/// In bfloat16 a claim detects tiles that count at least four times on average, even if they are
/// alike. Smaller multiples are not detected in every cell.
Expectation expect_wrong(const Cell& cell, const Pin& pin, bool is_clear, double least) {
  if (is_mixed(cell) && !is_clear) return expect_not_applicable(hidden_by_rounding(least));
  return pinned(expect_wrong_shards(), {pin});
}

}  // namespace

std::vector<Axis> accumulator_axes(const std::vector<Axis>& more, const std::vector<Axis>& last) {
  std::vector<Axis> axes{{"tiles", {"1", "2", "3", "4", "8"}, "4"},
                         {"length", {"24", "9"}, "24"},
                         {"tile_values", {"alike", "random"}, "alike"}};
  axes.insert(axes.end(), more.begin(), more.end());
  axes.push_back({"accumulation", {"1", "2", "4"}, "1"});
  axes.insert(axes.end(), last.begin(), last.end());
  return axes;
}

TilingOptions accumulator_tiling(const Rank& rank, const HookedParameters& listed) {
  TilingOptions tiling = tiling_options(rank);
  tiling.cut = TileCut::chunked_sequence;
  if (!rank.has("tile_slices", "cumulative-step")) tiling.slices = TileSlices::fixed_step;
  tiling.refuses_fewer_tiles = rank.has("fewer_tiles", "refused");
  if (rank.has("hooks", "none")) return tiling;
  const bool is_narrow = rank.has("sums_in", "bfloat16");
  GradientAccumulatorOptions hooks =
      rank.has("hooks", "mended")
          ? mended_hooks(is_narrow ? at::kBFloat16 : wide_dtype_of(rank.cell()))
          : published_hooks(rank.cell());
  if (rank.has("hands_over", "set-only")) hooks.hand_over = HandOver::set;
  accumulate_by_hooks(tiling, hooks, listed);
  return tiling;
}

void train_with_accumulator(Rank& rank, const std::function<void(TiledMlps&)>& prepare,
                            CallSite site) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) prepare(mlps);
  // Large steps make parameters show the effect of sums in bfloat16. In a model that computes in
  // bfloat16 they would amplify its rounding too much.
  if (!is_mixed(rank.cell())) mlps.options().learning_rate = 0.2;
  if (rank.has("law", "weighed")) {
    mlps.weigh([&rank](std::int64_t batch, std::int64_t tile) {
      return weight_of(rank.cell(), batch, tile);
    });
  }
  mlps.train(
      [&](const MicroBatch& batch, const Module::Forward& forward) {
        const at::Tensor input = rows_of(rank, batch, 1'000'000, MlpLayersOptions().inputs);
        return (forward(input) - rows_of(rank, batch, 2'000'000, 1)).pow(2).mean();
      },
      site);
}

std::int64_t pieces_of(const Cell& cell) {
  return chunk_pieces(number_on(cell, "length"), number_on(cell, "tiles"));
}

std::string refuse_tiles(const Cell& cell) {
  const std::int64_t pieces = pieces_of(cell);
  if (is_set(cell, "tile_values", "alike") && number_on(cell, "length") % pieces != 0) {
    return "tiles of different lengths are not alike";
  }
  if (is_set(cell, "law", "compared") && pieces != number_on(cell, "tiles")) {
    return "the formula holds only for the requested number of tiles";
  }
  return "";
}

Expectation expect_published_hooks(const Cell& cell) {
  if (is_set(cell, "fewer_tiles", "refused") && pieces_of(cell) != number_on(cell, "tiles")) {
    return expect_error("tiles where");
  }
  if (is_right(cell)) return expect_hidden();
  const bool is_changed = has_axis(cell, "fewer_tiles") || has_axis(cell, "tile_slices");
  const bool is_clear = !is_changed && mean_weight(cell) >= 4;
  return expect_wrong(cell, pin_of(cell, /*is_published=*/true), is_clear, 0.89);
}

Expectation expect_last_tile_twice(const Cell& cell) {
  const std::int64_t tiles = number_on(cell, "tiles");
  const bool is_hidden = pieces_of(cell) != tiles
                             ? !has_prior(cell)
                             : is_set(cell, "tile_values", "alike") && tiles == 3;
  if (is_hidden) return expect_hidden();
  return expect_wrong(cell, pin_of(cell, /*is_published=*/false), /*is_clear=*/false, 0.89);
}

Expectation expect_sums_in_bfloat16(const Cell& cell) {
  Pin pin = pin_of(cell, /*is_published=*/false);
  pin.ratio = about(1, 0.05);
  pin.why = "roundings to bfloat16";
  return expect_wrong(cell, pin, /*is_clear=*/false, 0);
}

}  // namespace lockstep
