// ZeRO concatenates all parameters and cuts the result into equal partitions, wherever the cuts
// fall. A rank may hold the middle of a parameter, or an empty one. It finds its piece of a
// gradient by three numbers: the parameter's offset in the partition, the partition's offset in the
// parameter, and the count of elements. If one is wrong, the piece is stepped with gradients of
// other elements, or of this rank alone, and then sent to all ranks.

#include <ATen/TensorOperators.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "harness/train/loop/training.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/sharded/partition_layout.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kSmallBucket = 10;  // elements
constexpr std::int64_t kAlignment = 2;

/// One parameter of `elements` elements, each with its own gradient.
struct Layer : Module {
  Layer(std::int64_t elements, const at::Generator& generator)
      : weight(
            register_parameter("weight", at::randn({elements}, generator, at::TensorOptions()))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return input + at::outer(input, weight).sin().sum(1) / 4;
  }

  at::Tensor weight;
};

struct Model : Module {
  Model(const std::vector<std::int64_t>& sizes, const at::Generator& generator) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      layers.push_back(register_module(fmt::format("layers.{}", i),
                                       std::make_shared<Layer>(sizes[i], generator)));
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor hidden = input;
    for (const auto& layer : layers) hidden = (*layer)(hidden);
    return hidden;
  }

  std::vector<std::shared_ptr<Layer>> layers;
};

/// "8-0-24"
std::vector<std::int64_t> sizes_of(const Cell& cell) {
  std::istringstream words(axis_value(cell, "sizes"));
  std::vector<std::int64_t> sizes;
  for (std::string size; std::getline(words, size, '-');) sizes.push_back(std::stoll(size));
  return sizes;
}

ZeroOptions options_of(const Rank& rank) {
  using Bookkeeping = PartitionBookkeeping;
  ZeroOptions options = zero_options(rank);
  if (rank.has("bucket", "small")) options.reduce_bucket_size = kSmallBucket;
  if (rank.has("pieces", "without-offset")) options.bookkeeping = Bookkeeping::offset_forgotten;
  if (rank.has("pieces", "of-beginnings")) options.bookkeeping = Bookkeeping::only_where_it_begins;
  if (rank.has("pieces", "by-beginning")) options.bookkeeping = Bookkeeping::first_at_each_place;
  return options;
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  Model model(sizes_of(cell), cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  model.to(rank.device());
  std::optional<Zero> sharded;
  if (!rank.is_reference()) {
    rank.at_branch();
    sharded.emplace(model, rank.group(), options_of(rank));
  }
  Training training(rank, model, training_options(rank), sharded ? &*sharded : nullptr);
  training.run({.loss = [&](const MicroBatch& batch) {
    return model(normal_input(rank, batch, 1'000'000, {kRows})).pow(2).mean();
  }});
}

Expectation expect_wrong(const Cell& cell, const std::vector<std::size_t>& parameters) {
  if (cell.world_size == 1 || parameters.empty()) return expect_hidden();
  std::vector<std::string> names;
  for (const std::size_t i : parameters) names.push_back(fmt::format("layers.{}.weight", i));
  return pinned(expect_wrong_shards(),
                {wrong_gradients_of(cell, names, "what stands in the place of a piece is drawn")});
}

/// Parameters that a partition boundary cuts.
Expectation expect_cut_ones_wrong(const Cell& cell) {
  const std::vector<std::int64_t> sizes = sizes_of(cell);
  const PartitionLayout layout(sizes, cell.world_size, kAlignment);
  std::vector<std::size_t> parameters;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (int partition = 0; partition < cell.world_size; ++partition) {
      const PartitionPiece piece = layout.piece(i, partition);
      if (piece.first > 0 && piece.elements > 0) parameters.push_back(i);
    }
  }
  return expect_wrong(cell, parameters);
}

/// Parameters after an empty one, which begins at the same place.
Expectation expect_hidden_ones_wrong(const Cell& cell) {
  const std::vector<std::int64_t> sizes = sizes_of(cell);
  std::vector<std::size_t> parameters;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i - 1] == 0 && sizes[i] > 0) parameters.push_back(i);
  }
  return expect_wrong(cell, parameters);
}

}  // namespace

Scenario zero_partition_boundary() {
  return {
      .summary =
          "ZeRO's partitions cut through parameters and meet empty ones. A rank reads a gradient "
          "at the wrong offset: all ranks agree on wrong parameters.",
      .origin =
          {"DeepSpeed", "issue #8297 (2026-08-23), pull requests #8280 (2026-08-19) and #8277",
           "8, 0 and 24 elements in one flattened group; its partitions in stages 1 and 2",
           "the refusals of the issue and of #8279; #8277's padding. The wrong numbers are ours"},
      .variants =
          {buggy("offset-forgotten",
                 "ZeRO 1, 2: a partition's first piece is read from the start of its parameter",
                 "pieces=without-offset", expect_cut_ones_wrong),
           buggy("only-where-it-begins",
                 "ZeRO 1, 2: only a parameter's first rank takes the mean; the rest stays local",
                 "pieces=of-beginnings", expect_cut_ones_wrong),
           buggy("found-by-where-it-begins",
                 "ZeRO 1, 2: parameters are looked up by offset, so an empty one hides the next",
                 "pieces=by-beginning", expect_hidden_ones_wrong),
           fixed("exact-pieces", "ZeRO 1, 2: every rank takes the mean of exactly its partition",
                 "pieces=exact"),
           reference("reference", "one process without partitions", "stage=1 bucket=standard")},
      .worlds = worlds_from(1),
      .axes = {{"sizes", {"8-0-24", "8-24", "12-12-12-12", "5-0-7-1", "0-1"}, "8-0-24"},
               {"stage", {"1", "2"}, "2"},
               {"bucket", {"standard", "small"}, "standard"},
               accumulation_axis(),
               dtype_axis()},
      .claims = claims_before({kParametersAgree}, sharded_claims()),
      .body = train,
  };
}

}  // namespace lockstep
