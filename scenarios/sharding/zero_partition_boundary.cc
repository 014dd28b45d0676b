// ZeRO flattens parameters one behind the other and cuts the whole in equal partitions, whatever
// lies at the cuts. So a rank may hold the middle of a parameter, or an empty one, and has to find
// its piece of every gradient by numbers: where the parameter begins in the partition, where the
// partition begins in the parameter, how much of it there is. Where one of them is wrong, the piece
// is stepped with a gradient of other elements, or of this rank alone, and then handed to all.

#include <ATen/TensorOperators.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/loop/sharded_training.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/partition_layout.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kSmallBucket = 10;  // elements
constexpr std::int64_t kAlignment = 2;

/// One parameter of so many elements, each of which gets a gradient of its own.
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

PartitionBookkeeping bookkeeping_of(Rank& rank) {
  if (rank.is("offset-forgotten")) return PartitionBookkeeping::offset_forgotten;
  if (rank.is("only-where-it-begins")) return PartitionBookkeeping::only_where_it_begins;
  if (rank.is("found-by-where-it-begins")) return PartitionBookkeeping::first_at_each_place;
  rank.is("exact-pieces");
  return PartitionBookkeeping::exact;
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Module& model, at::Device device) {
  const at::Tensor input = normal_input(rank, batch, 1'000'000, {kRows}).to(device);
  return model(input).pow(2).mean();
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  Model model(sizes_of(cell), cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  const at::Device device = open_devices(rank, {.count = 1}).front();
  model.to(device);
  const MicroBatchOptions options = micro_batch_options(cell);
  if (rank.is("reference")) {
    return train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto*) {
      return loss_of(rank, batch, model, device);
    });
  }
  ZeroOptions zero{.stage = static_cast<int>(number_on(cell, "stage")),
                   .bookkeeping = bookkeeping_of(rank)};
  if (is_set(cell, "bucket", "small")) zero.reduce_bucket_size = kSmallBucket;
  Zero sharded(model, rank.group(), zero);
  train_sharded(rank, sharded, options,
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model, device); });
}

std::string name_of(std::size_t parameter) { return fmt::format("layers.{}.weight", parameter); }

/// The parameters that a boundary lies inside of.
std::vector<std::string> cut_ones(const std::vector<std::int64_t>& sizes, int partitions) {
  const PartitionLayout layout(sizes, partitions, kAlignment);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (int partition = 0; partition < partitions; ++partition) {
      const PartitionPiece piece = layout.piece(i, partition);
      if (piece.first > 0 && piece.elements > 0) names.push_back(name_of(i));
    }
  }
  return names;
}

/// The parameters where an empty one begins too, in front of them.
std::vector<std::string> hidden_ones(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i - 1] == 0 && sizes[i] > 0) names.push_back(name_of(i));
  }
  return names;
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  const std::vector<std::int64_t> sizes = sizes_of(cell);
  const std::vector<std::string> wrong = cell.variant == "found-by-where-it-begins"
                                             ? hidden_ones(sizes)
                                             : cut_ones(sizes, cell.world_size);
  if (cell.world_size == 1 || wrong.empty()) return expect_hidden();
  return pinned(expect_wrong_shards(),
                {wrong_gradients_of(cell, wrong, "what stands in the place of a piece is drawn")});
}

std::vector<Variant> variants() {
  return {
      {.name = "offset-forgotten",
       .role = Role::buggy,
       .summary = "ZeRO 1 or 2: the piece that a partition begins with is read from the "
                  "parameter's start"},
      {.name = "only-where-it-begins",
       .role = Role::buggy,
       .summary = "ZeRO 1 or 2: a parameter's mean is taken by the rank where it begins; the rest "
                  "of it keeps a rank's own gradient, divided by the world size"},
      {.name = "found-by-where-it-begins",
       .role = Role::buggy,
       .summary = "ZeRO 1 or 2: parameters are found by where they begin, and an empty one hides "
                  "the one behind it"},
      {.name = "exact-pieces",
       .role = Role::fixed,
       .summary = "ZeRO 1 or 2: every rank takes the mean of what lies in its partition"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, nothing is cut",
       .without = {"stage", "bucket"}},
  };
}

std::vector<Axis> axes() {
  return {
      {"sizes", {"8-0-24", "8-24", "12-12-12-12", "5-0-7-1", "0-1"}, "8-0-24"},
      {"stage", {"1", "2"}, "2"},
      {"bucket", {"standard", "small"}, "standard"},
      {"accumulation", {"1", "2"}, "1"},
      {"dtype", {"float32", "float64"}, "float32"},
  };
}

}  // namespace

Scenario zero_partition_boundary() {
  return {
      .id = "zero-partition-boundary",
      .summary =
          "ZeRO's partitions are cut through parameters and beside empty ones, and a rank takes a "
          "piece of a gradient from the wrong place: all ranks agree on wrong parameters.",
      .provenance = {.project = "DeepSpeed",
                     .link = "issue #8297 (2026-08-23), pull requests #8280 (2026-08-19) and #8277",
                     .kept = "the parameters of 8, 0 and 24 elements, the flattened group, its "
                             "partitions and the reduction of their pieces in stages 1 and 2",
                     .left_out = "the refusals of the issue and of #8279, which came before wrong "
                                 "values could; the padding between parameters that #8277 adds. "
                                 "The faults are ours: numbers of that bookkeeping, each wrong"},
      .worlds = worlds_from(1),
      .devices = {"cpu", "sim", "cuda"},
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = claims_before({kParametersAgree}, sharded_claims()),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
