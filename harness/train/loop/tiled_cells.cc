#include "harness/train/loop/tiled_cells.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "harness/scenario/axes.h"
#include "harness/train/loop/training.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

template <typename Choice>
struct Choices {
  const char* condition;
  std::vector<std::pair<std::string_view, Choice>> words;
};

template <typename Choice>
void choose(const Rank& rank, const Choices<Choice>& choices, Choice& chosen) {
  if (!has_axis(rank.cell(), choices.condition)) return;
  const std::string& word = rank.text(choices.condition);
  for (const auto& [known, choice] : choices.words) {
    if (known != word) continue;
    chosen = choice;
    return;
  }
  throw internal_error(fmt::format("'{}' is no value of '{}'", word, choices.condition));
}

}  // namespace

std::vector<Axis> tiled_axes(std::vector<Axis> more) {
  std::vector<Axis> axes{
      rank_axis("tiles", {"1", "2", "3", "4", "8"}, "4"),
      {"length", {"8", "11"}, "8"},
      {"batch", {"1", "2"}, "2"},
  };
  axes.insert(axes.end(), more.begin(), more.end());
  return ddp_axes(std::move(axes));
}

TilingOptions tiling_options(const Rank& rank) {
  using Backward = TileBackward;
  using Accumulation = TileAccumulation;
  TilingOptions tiling;
  if (has_axis(rank.cell(), "tiles")) tiling.tiles = rank.number("tiles");
  choose(rank,
         {"tile_backward",
          {{"per-tile", Backward::backward_per_tile},
           {"grad-but-last", Backward::grad_but_last},
           {"explicit-inputs", Backward::explicit_inputs}}},
         tiling.backward);
  choose(rank,
         {"tile_accumulation",
          {{"in-place", Accumulation::in_place}, {"set-aside", Accumulation::set_aside}}},
         tiling.accumulation);
  choose(rank,
         {"tile_cut",
          {{"even-rows", TileCut::even_rows},
           {"chunked-rows", TileCut::chunked_rows},
           {"chunked-sequence", TileCut::chunked_sequence}}},
         tiling.cut);
  choose(rank,
         {"tile_slices",
          {{"own", TileSlices::own},
           {"fixed-step", TileSlices::fixed_step},
           {"cumulative-step", TileSlices::cumulative_step}}},
         tiling.slices);
  return tiling;
}

std::string refuse_ddp_of_one_rank(const Cell& cell) {
  if (cell.world_size > 1) return "";
  if (cell.role != Role::fixed && cell.role != Role::reference) {
    return "one rank trains without DDP, but the variant is about DDP's reducer";
  }
  const bool asks_for_ddp = is_set(cell, "no_sync") || is_set(cell, "bucket_view") ||
                            is_set(cell, "find_unused") || is_set(cell, "static_graph") ||
                            is_set(cell, "bucket", "small");
  return asks_for_ddp ? "one rank trains without DDP, but the cell sets an option of DDP" : "";
}

void train_on_sequences(Rank& rank, Module& model, std::int64_t width, const Module::Forward& run) {
  model.to(dtype_of(rank.cell()));
  TrainingOptions options = training_options(rank);
  if (rank.world_size() == 1) options.sync = GradientSync::none;
  Training training(rank, model, options);
  const Module::Forward forward = [&](const at::Tensor& input) {
    return training.forward([&] { return run(input); });
  };
  const std::vector<std::int64_t> rows{rank.number("batch"), rank.number("length")};
  training.run({.loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, forward, rows, width, width);
  }});
}

}  // namespace lockstep
