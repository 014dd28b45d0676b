#include "harness/train/loop/device_map_loading.h"

#include <fmt/format.h>

#include <cstdio>

#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/rank/devices.h"

namespace lockstep {

namespace {

constexpr int kMappedBlocks = 4;
constexpr std::int64_t kMappedText = 2;

DeviceMapRequest request_of(const Cell& cell, const std::vector<at::Device>& devices) {
  std::string asked = "none";
  for (const char* const axis : {"map", "named_map", "unnamed_map"}) {
    if (has_axis(cell, axis)) asked = axis_value(cell, axis);
  }
  if (asked != "explicit") return parse_device_map(asked);
  DeviceMapRequest request{DevicePolicy::explicit_map, {{"", devices.front()}}};
  for (int block = kMappedBlocks / 2; block < kMappedBlocks; ++block) {
    request.map.push_back({fmt::format("language.blocks.{}", block), devices.back()});
  }
  request.map.push_back({"language.norm", devices.back()});
  return request;
}

}  // namespace

VisionLanguageOptions frozen_with_adapters(std::int64_t text, std::int64_t blocks) {
  VisionLanguageOptions sizes = kTinyVisionLanguage;
  sizes.max_text = text;
  sizes.language_width = 32;
  sizes.language_hidden = 128;
  sizes.language_blocks = blocks;
  sizes.lora = LoraOptions{.rank = 2, .draws_b = true};
  return sizes;
}

ImageText adapter_batch(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        at::Device device) {
  const ImageText drawn = image_text_of(rank, batch, sizes, /*rows=*/2, sizes.max_text);
  return {drawn.image.to(device), drawn.tokens.to(device)};
}

TrainingOptions adapter_training_options(const Rank& rank) {
  TrainingOptions options = training_options(rank);
  options.ddp.init_sync = false;
  options.learning_rate = 2e-3;  // newly drawn adapters diverge at higher rates
  return options;
}

VisionLanguageOptions mapped_sizes() { return frozen_with_adapters(kMappedText, kMappedBlocks); }

at::Device first_device_of(const Module& model) { return model.parameters().front().device(); }

void train_mapped_model(Rank& rank, VisionLanguageModel& model) {
  Training training(rank, model, adapter_training_options(rank));
  training.run({.loss = [&](const MicroBatch& batch) {
    const auto [image, tokens] = adapter_batch(rank, batch, mapped_sizes(), first_device_of(model));
    if (rank.is_reference()) return next_token_loss(model.forward(image, tokens), tokens);
    const at::Tensor hidden = training.forward(
        [&, &image = image, &tokens = tokens] { return model.hidden_states(image, tokens); });
    return fused_cross_entropy(hidden, model.head_weight(), {}, tokens,
                               {.returns_gradients = false});
  }});
}

Expectation expect_full_device(const Cell& cell) {
  if (cell.device == DeviceKind::cuda) {
    return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
  }
  return expect_error(device_error::kOutOfMemory, 0);
}

Axis device_map_axis(std::vector<std::string> variants) {
  return {.name = "map",
          .values = {"auto", "balanced", "balanced_low_0", "sequential", "explicit"},
          .default_value = "auto",
          .variants = std::move(variants)};
}

DeviceMapLoading::DeviceMapLoading(Rank& rank, Module& model,
                                   const DeviceMapLoadingOptions& options)
    : rank_(rank),
      model_(model),
      devices_(open_devices(rank, {.count = options.devices,
                                   .capacity = options.capacity,
                                   .node = rank.rank() / options.ranks_per_node})),
      environment_(find_distributed_environment(
          environment_of_rank(rank.rank(), rank.world_size(), options.ranks_per_node),
          &rank.group())),
      asked_(request_of(rank.cell(), devices_)),
      run_{.is_distributed = environment_.is_distributed, .trains = options.trains} {}

DeviceMapRequest DeviceMapLoading::all_on_first_device() const {
  return {DevicePolicy::explicit_map, {{"", devices_.front()}}};
}

DeviceMapRequest DeviceMapLoading::overridden(const DeviceMapRequest& request,
                                              const SplitGuard& guard) const {
  Overridden result = override_split(request, guard, run_, {{"", own_device()}});
  if (!result.warning.empty()) std::fprintf(stderr, "%s\n", result.warning.c_str());
  return result.request;
}

void DeviceMapLoading::carry_out(const DeviceMapRequest& request) {
  const DeviceMap map = resolve_device_map(request, model_, room_for(request));
  std::fprintf(stderr, "device_map=%s\n", to_string(map).c_str());
  take_turns(rank_, [&] { place(model_, map); });
  if (request.policy == DevicePolicy::none) model_.to(own_device());
}

at::Device DeviceMapLoading::own_device() const {
  return devices_[static_cast<std::size_t>(environment_.local_rank)];
}

/// Room for a full copy on every device. `sequential` would put everything on the first, so there
/// each device has room for its share and one more block.
PlacementOptions DeviceMapLoading::room_for(const DeviceMapRequest& request) const {
  const auto count = static_cast<std::int64_t>(devices_.size());
  const std::int64_t copy = bytes_of(model_);
  const bool is_sequential = request.policy == DevicePolicy::sequential;
  PlacementOptions options;
  for (const at::Device device : devices_) {
    options.devices.push_back({device, is_sequential ? copy / count + copy / kMappedBlocks : copy});
  }
  return options;
}

}  // namespace lockstep
