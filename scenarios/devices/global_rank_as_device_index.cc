// A helper uses the global rank as the device index. The rank counts over all machines, the index
// on one. The second machine has no such device, and the helper hides that it failed to make the
// device current.

#include <algorithm>

#include "harness/train/loop/device_map_loading.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

/// The first error comes while the model is placed, because the helper hides the earlier failure.
constexpr const char* kWhilePlaced = "while the whole model of";

VisionLanguageOptions sizes() { return frozen_with_adapters(/*text=*/3, /*blocks=*/2); }

/// Ranks of one machine, which has one device per rank.
int ranks_per_node(const Cell& cell) {
  return has_axis(cell, "ranks_per_node") ? static_cast<int>(number_on(cell, "ranks_per_node"))
                                          : cell.world_size;
}

DeviceMap map_of(Rank& rank, const DistributedEnvironment& environment,
                 const std::vector<at::Device>& devices) {
  rank.at_branch();
  HelperMistakes mistakes;
  if (rank.has("mistakes", "both")) mistakes = mistakes_of_the_helper();
  if (rank.has("mistakes", "index")) mistakes = {.takes_global_rank = true};
  const DeviceMap map =
      per_rank_device_map(environment, rank.cell().device, set_current_device, mistakes);
  return rank.has("model_on", "current-device") ? DeviceMap{{"", current_device(devices.front())}}
                                                : map;
}

/// Places the model on the device that the helper finds for this rank.
void load(Rank& rank, VisionLanguageModel& model) {
  const int per_node = ranks_per_node(rank.cell());
  const std::vector<at::Device> devices = open_devices(
      rank,
      {.count = per_node, .capacity = bytes_of(model) * 19 / 10, .node = rank.rank() / per_node});
  const DistributedEnvironment environment = find_distributed_environment(
      environment_of_rank(rank.rank(), rank.world_size(), per_node), &rank.group());
  take_turns(rank, [&] { place(model, map_of(rank, environment, devices)); });
}

void train(Rank& rank) {
  VisionLanguageModel model(sizes(), cpu_generator(rank.seed(0)));
  if (!rank.is_reference()) load(rank, model);
  Training training(rank, model, adapter_training_options(rank));
  training.run({.loss = [&](const MicroBatch& batch) {
    const auto [image, tokens] = adapter_batch(rank, batch, sizes(), first_device_of(model));
    const at::Tensor logits = training
                                  .forward([&, &image = image, &tokens = tokens] {
                                    return std::vector{model.forward(image, tokens)};
                                  })
                                  .front();
    return next_token_loss(logits, tokens);
  }});
}

int ranks_on_second_node(const Cell& cell) {
  return std::min(cell.world_size - ranks_per_node(cell), ranks_per_node(cell));
}

Expectation expect_lacking_device(const Cell& cell, const char* error) {
  return ranks_on_second_node(cell) > 0 ? expect_error(error, 0) : expect_hidden();
}

Expectation expect_placed_anyway(const Cell& cell) {
  return expect_lacking_device(cell, kWhilePlaced);
}

Expectation expect_no_such_device(const Cell& cell) {
  return expect_lacking_device(cell, device_error::kNoSuchDevice);
}

Expectation expect_full_device(const Cell& cell) {
  if (ranks_on_second_node(cell) < 2) {
    return expect_not_applicable("needs 4 ranks: two of them on the second of two machines");
  }
  if (cell.device == "cuda") {
    return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
  }
  return expect_error(device_error::kOutOfMemory, 0);
}

std::vector<Variant> variants() {
  return {
      {"global-rank", Role::buggy,
       "the helper as it is: the second machine is asked for a device that it lacks",
       "mistakes=both", expect_placed_anyway},
      {"global-rank-then-current", Role::buggy,
       "the model goes to the current device: still the first, for all ranks of the second machine",
       "mistakes=both model_on=current-device ranks_per_node=2", expect_full_device},
      {"global-rank-told", Role::wrong_fix,
       "the failure is passed on: the rank still asks for the wrong device", "mistakes=index",
       expect_no_such_device},
      {"one-machine", Role::latent, "the helper as it is, on one machine", "mistakes=both"},
      {"local-rank", Role::fixed, "the index is the rank on the machine", "mistakes=none"},
      {"reference", Role::reference, "one process on the CPU: the mean of all shards' gradients"},
  };
}

std::vector<Axis> axes() {
  return {{"ranks_per_node", {"1", "2"}, "1", {"global-rank", "global-rank-told", "local-rank"}},
          {"accumulation", {"1", "2"}, "1"}};
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
      .axes = axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .body = train,
  };
}

}  // namespace lockstep
