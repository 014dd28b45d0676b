// A helper takes the rank in the process group, which counts over all machines, for the index of
// the device, which counts on one. On the second machine there is no such device, and the helper
// does not say that it could not make it the current one.

#include "harness/scenario/scenario.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/placement/distributed_environment.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 2;
constexpr double kLearningRate = 2e-3;  // adapters that are drawn soon explode with more
constexpr std::int64_t kText = 3;
/// The model was already on its way: that the device could not be made current was not said.
constexpr const char* kWhilePlaced = "while the whole model of";

/// Frozen weights, which fill the memory, and small adapters that are trained.
constexpr VisionLanguageOptions kSizes = [] {
  VisionLanguageOptions sizes = kTinyVisionLanguage;
  sizes.max_text = kText;
  sizes.language_width = 32;
  sizes.language_hidden = 128;
  sizes.lora = LoraOptions{.rank = 2, .draws_b = true};
  return sizes;
}();

/// Ranks of one machine, which has a device for each.
int ranks_per_node(const Cell& cell) {
  if (cell.variant == "global-rank-then-current") return 2;
  return has_axis(cell, "ranks_per_node") ? static_cast<int>(number_on(cell, "ranks_per_node"))
                                          : cell.world_size;
}

/// The map of a rank, where variants part.
DeviceMap map_of(Rank& rank, const DistributedEnvironment& environment,
                 const std::vector<at::Device>& devices) {
  HelperMistakes mistakes;
  if (rank.is("global-rank") || rank.is("one-machine") || rank.is("global-rank-then-current")) {
    mistakes = mistakes_of_the_helper();
  }
  if (rank.is("global-rank-told")) mistakes = {.takes_global_rank = true};
  const DeviceMap map =
      per_rank_device_map(environment, rank.cell().device, set_current_device, mistakes);
  if (!rank.is("global-rank-then-current")) {
    rank.is("local-rank");
    return map;
  }
  return {{"", current_device(devices.front())}};
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  VisionLanguageModel model(kSizes, cpu_generator(rank.seed(0)));
  if (!rank.is("reference")) {
    const int per_node = ranks_per_node(cell);
    const std::vector<at::Device> devices = open_devices(
        rank,
        {.count = per_node, .capacity = bytes_of(model) * 19 / 10, .node = rank.rank() / per_node});
    const DistributedEnvironment environment = find_distributed_environment(
        environment_of_rank(rank.rank(), rank.world_size(), per_node), &rank.group());
    take_turns(rank, [&] { place(model, map_of(rank, environment, devices)); });
  }
  const at::Device device = model.parameters().front().device();
  MicroBatchOptions options = micro_batch_options(cell);
  options.ddp.init_sync = false;  // a device has no room for a second copy
  options.learning_rate = kLearningRate;
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const auto [image, tokens] = image_text_of(rank, batch, kSizes, kRows, kText);
    const auto forward = [&, image = image.to(device), tokens = tokens.to(device)] {
      return std::vector{model.forward(image, tokens)};
    };
    const at::Tensor logits = (ddp ? ddp->forward(forward) : forward()).front();
    return next_token_loss(logits, tokens.to(device));
  });
}

int ranks_on_second_node(const Cell& cell) {
  return std::min(cell.world_size - ranks_per_node(cell), ranks_per_node(cell));
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  if (cell.variant == "global-rank-then-current") {
    if (ranks_on_second_node(cell) < 2) {
      return expect_not_applicable("needs 4 ranks: two of them on the second of two machines");
    }
    if (cell.device == "cuda") {
      return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
    }
    return expect_error(device_error::kOutOfMemory, 0);
  }
  if (ranks_on_second_node(cell) <= 0) return expect_hidden();
  return expect_error(cell.variant == "global-rank" ? kWhilePlaced : device_error::kNoSuchDevice,
                      0);
}

std::vector<Variant> variants() {
  return {
      {.name = "global-rank",
       .role = Role::buggy,
       .summary = "the helper as it is: the second machine is asked for a device that it lacks"},
      {.name = "global-rank-then-current",
       .role = Role::buggy,
       .summary = "the model goes to the current device: still the first, for all ranks of the "
                  "second machine",
       .without = {"ranks_per_node"}},
      {.name = "global-rank-told",
       .role = Role::wrong_fix,
       .summary = "the failure is passed on: the rank still asks for the wrong device"},
      {.name = "one-machine",
       .role = Role::latent,
       .summary = "the helper as it is, on one machine",
       .without = {"ranks_per_node"}},
      {.name = "local-rank",
       .role = Role::fixed,
       .summary = "the index is the rank on the machine"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process on the CPU: the mean of all shards' gradients",
       .without = {"ranks_per_node"}},
  };
}

}  // namespace

Scenario global_rank_as_device_index() {
  return {
      .id = "global-rank-as-device-index",
      .summary =
          "The rank among all machines is taken for the index of a device on one: the second "
          "machine has no such device, and the failure is swallowed.",
      .provenance = {.project = "unsloth",
                     .link = "unsloth/models/loader_utils.py, prepare_device_map (2026)",
                     .kept = "rank and size from the process group where there is one, else from "
                             "the environment; the failure to set the current device, which is "
                             "swallowed",
                     .left_out =
                         "machines: each is an environment of a launcher and devices of its "
                         "own, on one"},
      .worlds = worlds_from(2),
      .devices = {"sim", "cuda"},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{ranks_per_node(cell), false};
          },
      .steps = 2,
      .axes = {{"ranks_per_node", {"1", "2"}, "1"}, {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
