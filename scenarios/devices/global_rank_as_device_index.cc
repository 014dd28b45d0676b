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
  const DeviceMap map = per_rank_device_map(environment, std::string(name(rank.cell().device)),
                                            set_current_device, mistakes);
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
    const at::Tensor logits = training.forward(
        [&, &image = image, &tokens = tokens] { return model.forward(image, tokens); });
    return next_token_loss(logits, tokens);
  }});
}

int ranks_on_second_node(const Cell& cell) {
  return std::min(cell.world_size - ranks_per_node(cell), ranks_per_node(cell));
}

/// The second machine lacks the device that its ranks ask for.
ExpectationOf expect_lacking_device(const char* error) {
  return [error](const Cell& cell) {
    return ranks_on_second_node(cell) > 0 ? expect_error(error, 0) : expect_hidden();
  };
}

Expectation expect_shared_device(const Cell& cell) {
  if (ranks_on_second_node(cell) >= 2) return expect_full_device(cell);
  return expect_not_applicable("needs 4 ranks: two of them on the second of two machines");
}

}  // namespace

Scenario global_rank_as_device_index() {
  return {
      .summary =
          "The global rank is used as a device index: on the second machine no such device exists, "
          "and the failure is swallowed.",
      .origin =
          {"unsloth", "unsloth/models/loader_utils.py, prepare_device_map (2026)",
           "rank and size from the process group or the environment; the swallowed failure",
           "machines: each is a launcher's environment with devices of its own, on one machine"},
      .variants =
          {buggy("global-rank",
                 "the helper unchanged: the second machine is asked for a device that it lacks",
                 "mistakes=both", expect_lacking_device(kWhilePlaced)),
           buggy("global-rank-then-current",
                 "the model goes to the current device: on the second machine always the first one",
                 "mistakes=both model_on=current-device ranks_per_node=2", expect_shared_device),
           wrong_fix("global-rank-told",
                     "the failure is raised, but the rank still asks for the wrong device",
                     "mistakes=index", expect_lacking_device(device_error::kNoSuchDevice)),
           latent("one-machine", "the helper unchanged, on one machine", "mistakes=both"),
           fixed("local-rank", "the index is the local rank", "mistakes=none"),
           reference("reference", "one process on one device: the mean of all shards' gradients")},
      .devices = {DeviceKind::sim, DeviceKind::cuda},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{ranks_per_node(cell), false};
          },
      .steps = 2,
      .axes =
          {{"ranks_per_node", {"1", "2"}, "1", {"global-rank", "global-rank-told", "local-rank"}},
           accumulation_axis()},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
