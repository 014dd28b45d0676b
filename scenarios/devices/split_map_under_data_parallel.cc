// Every rank of a data-parallel run splits its model over all devices, because that is what the
// user's device map says. What was tried: to give each rank a full copy and say so, to refuse with
// an advice, and versions of both that leave a way open or shut one too many.

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cstdio>

#include "harness/train/device_map.h"
#include "harness/train/devices.h"
#include "harness/train/distributed_environment.h"
#include "harness/train/fused_cross_entropy.h"
#include "harness/train/micro_batches.h"
#include "harness/train/quantised_linear.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"
#include "harness/train/vision_language_model.h"

namespace lockstep {

namespace {

constexpr int kBlocks = 4;
constexpr int kDevicesOfInference = 2;
constexpr std::int64_t kRows = 2;
constexpr std::int64_t kText = 2;
const std::vector<std::string> kMaps{"auto", "balanced", "balanced_low_0", "sequential",
                                     "explicit"};
constexpr const char* kWrongDevice = "returned an invalid gradient at index 0 - expected device";
constexpr const char* kOutOfMemory = "out of memory. Tried to allocate";
constexpr const char* kOwnCheck = "Lockstep's own check: the quantised weights of";

/// Frozen weights, which fill the memory, and small adapters that are trained. The head's weight is
/// the embedding's, on the first device; the last hidden states are on the last.
VisionLanguageOptions sizes_of(const Cell& cell) {
  return {.height = 4,
          .width = 4,
          .vision_width = 8,
          .vision_heads = 1,
          .vision_hidden = 8,
          .vision_blocks = 1,
          .vocabulary = 32,
          .max_text = kText,
          .language_width = 32,
          .language_hidden = 128,
          .language_blocks = kBlocks,
          .lora = LoraOptions{
              .rank = 2, .draws_b = true, .quantises_base = is_about(cell, "quantised")}};
}

bool is_inference(const Cell& cell) { return is_about(cell, "inference"); }

/// What is shown of each by the standard value: the map that slips through in training, one that
/// does not in inference.
const char* map_axis(const Cell& cell) { return is_inference(cell) ? "inference_map" : "map"; }

/// Devices of a node: one per rank where a run trains on one machine; in inference each rank has a
/// machine of its own.
int device_count(const Cell& cell) {
  return is_inference(cell) ? kDevicesOfInference : cell.world_size;
}

/// What a device holds is told in full copies of the model: less than one in inference, so that it
/// only fits split; in training what one copy and its training take, and not a second copy.
std::optional<std::int64_t> capacity_of(const Cell& cell, const Module& model) {
  const std::int64_t copy = bytes_of(model);
  if (is_inference(cell)) return copy * 9 / 10;
  const bool is_bounded = cell.variant == "first-device" || cell.role == Role::fixed;
  if (is_bounded && !is_about(cell, "quantised")) return copy * 19 / 10;
  return std::nullopt;
}

/// What the user asked for: the value of the axis, and a share of the devices per rank.
DeviceMapRequest request_of(const Cell& cell, const std::vector<at::Device>& devices) {
  const std::string& map = axis_value(cell, map_axis(cell));
  if (map != "explicit") return parse_device_map(map);
  const at::Device last = devices.back();
  DeviceMapRequest request{DevicePolicy::explicit_map, {{"", devices.front()}}};
  for (int block = kBlocks / 2; block < kBlocks; ++block) {
    request.map.push_back({fmt::format("language.blocks.{}", block), last});
  }
  request.map.push_back({"language.norm", last});
  return request;
}

/// One rank that loads its model.
class Loading {
 public:
  Loading(Rank& rank, Module& model)
      : rank_(rank),
        model_(model),
        devices_(open_devices(rank, {.count = device_count(rank.cell()),
                                     .capacity = capacity_of(rank.cell(), model),
                                     .node = is_inference(rank.cell()) ? rank.rank() : 0})),
        user_(request_of_user()),
        run_{.is_distributed = environment().is_distributed, .trains = !is_inference(rank.cell())} {
  }

  /// Where variants part.
  void load() {
    if (rank_.is("split-over-all") || rank_.is("quantised-split")) return carry_out(user_);
    if (rank_.is("named-maps-overridden") || rank_.is("inference-overridden")) {
      return carry_out(overridden(guard_of_the_pull_request()));
    }
    if (rank_.is("overridden") || rank_.is("inference-split") || rank_.is("quantised-overridden")) {
      return carry_out(overridden(complete_guard()));
    }
    if (rank_.is("refused-then-none")) return take_advice(DevicePolicy::none);
    if (rank_.is("refused-then-removed")) return take_advice(DevicePolicy::sequential);
    if (rank_.is("first-device")) carry_out({DevicePolicy::explicit_map, {{"", devices_.front()}}});
  }

  /// Where this rank is to train.
  at::Device own_device() const {
    return devices_[static_cast<std::size_t>(environment().local_rank)];
  }

 private:
  DistributedEnvironment environment() const {
    const int per_node = is_inference(rank_.cell()) ? 1 : rank_.world_size();
    return find_distributed_environment(
        environment_of_rank(rank_.rank(), rank_.world_size(), per_node), &rank_.group());
  }

  DeviceMapRequest request_of_user() const {
    const Cell& cell = rank_.cell();
    return has_axis(cell, map_axis(cell)) ? request_of(cell, devices_) : DeviceMapRequest();
  }

  /// A full copy on every device, which `sequential` would put on the first: it gets a share, with
  /// room for one block more.
  PlacementOptions room_for(const DeviceMapRequest& request) const {
    const auto count = static_cast<std::int64_t>(devices_.size());
    const std::int64_t copy = bytes_of(model_);
    const bool is_sequential = request.policy == DevicePolicy::sequential;
    PlacementOptions options;
    for (const at::Device device : devices_) {
      options.devices.push_back({device, is_sequential ? copy / count + copy / kBlocks : copy});
    }
    return options;
  }

  void carry_out(const DeviceMapRequest& request) {
    const DeviceMap map = resolve_device_map(request, model_, room_for(request));
    std::fprintf(stderr, "device_map=%s\n", to_string(map).c_str());
    take_turns(rank_, [&] { place(model_, map); });
  }

  DeviceMapRequest overridden(const SplitGuard& guard) {
    Overridden result = override_split(user_, guard, run_, {{"", own_device()}});
    if (!result.warning.empty()) std::fprintf(stderr, "%s\n", result.warning.c_str());
    return result.request;
  }

  /// The user reads the refusal and does what it says: `policy` instead. Without a device map the
  /// trainer moves the model to its own device; a device map that is left out is "sequential".
  void take_advice(DevicePolicy policy) {
    try {
      refuse_split(user_, complete_guard(), run_);
    } catch (const Refusal& refusal) {
      std::fprintf(stderr, "%s\n", refusal.what());
      carry_out({policy, {}});
      if (policy == DevicePolicy::none) model_.to(own_device());
    }
  }

  Rank& rank_;
  Module& model_;
  std::vector<at::Device> devices_;
  DeviceMapRequest user_;
  RunKind run_;
};

ImageText batch_of(Rank& rank, const MicroBatch& batch, const Module& model) {
  ImageText drawn = image_text_of(rank, batch, sizes_of(rank.cell()), kRows, kText);
  const at::Device first = model.parameters().front().device();
  return {drawn.image.to(first), drawn.tokens.to(first)};
}

void train(Rank& rank, VisionLanguageModel& model) {
  const bool is_reference = rank.cell().role == Role::reference;
  const FusedCrossEntropyOptions fused{.returns_gradients = false};
  MicroBatchOptions options = micro_batch_options(rank.cell());
  options.ddp.init_sync = false;  // a device has no room for a second copy
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const auto [image, tokens] = batch_of(rank, batch, model);
    if (is_reference) return next_token_loss(model.forward(image, tokens), tokens);
    const auto forward = [&] { return std::vector{model.hidden_states(image, tokens)}; };
    const at::Tensor hidden = (ddp ? ddp->forward(forward) : forward()).front();
    return fused_cross_entropy(hidden, model.head_weight(), {}, tokens, fused);
  });
}

/// All ranks answer the same request.
void infer(Rank& rank, VisionLanguageModel& model) {
  const at::NoGradGuard no_grad;
  rank.train([&](std::int64_t step) {
    const auto [image, tokens] = batch_of(rank, {.owner = 0, .step = step}, model);
    const at::Tensor logits = model.forward(image, tokens);
    rank.observer().observe(Point::forward, Kind::loss, "loss",
                            next_token_loss(logits, tokens.to(logits.device())));
  });
}

void body(Rank& rank) {
  VisionLanguageModel model(sizes_of(rank.cell()), cpu_generator(rank.seed(0)));
  if (rank.cell().role == Role::reference) {
    rank.is(rank.cell().variant);
  } else {
    Loading loading(rank, model);
    loading.load();
    if (is_about(rank.cell(), "quantised")) check_quantised_weights(model, loading.own_device());
  }
  is_inference(rank.cell()) ? infer(rank, model) : train(rank, model);
}

/// Whether the pull request's list names what the user asked for.
bool is_named(const Cell& cell) {
  const char* const map = map_axis(cell);
  return !is_set(cell, map, "sequential") && !is_set(cell, map, "explicit");
}

/// `balanced_low_0` leaves the first device what the others cannot take: with two, nothing.
bool splits(const Cell& cell) {
  return !is_set(cell, map_axis(cell), "balanced_low_0") || device_count(cell) > 2;
}

Expectation expect(const Cell& cell) {
  if (is_inference(cell) && !splits(cell)) {
    return expect_not_applicable("balanced_low_0 does not split a model over two devices");
  }
  if (cell.variant == "split-over-all") {
    return splits(cell) ? expect_error(kWrongDevice) : Expectation();
  }
  if (cell.variant == "refused-then-removed") return expect_error(kWrongDevice);
  if (cell.variant == "named-maps-overridden" && !is_named(cell)) return expect_error(kWrongDevice);
  if (cell.variant == "quantised-split") return expect_error(kOwnCheck, 0);
  const bool needs_capacity = cell.variant == "first-device" || is_inference(cell);
  if (needs_capacity && cell.device == "cuda") {
    return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
  }
  if (cell.variant == "first-device") return expect_error(kOutOfMemory, 0);
  if (cell.variant == "inference-overridden" && is_named(cell))
    return expect_error(kOutOfMemory, 0);
  return {};
}

std::vector<Variant> variants() {
  const std::vector<Claim> trains = [] {
    std::vector<Claim> claims = micro_batch_claims();
    std::erase(claims, ranks_finish());
    return claims;
  }();
  const std::vector<Claim> infers{agree_across_ranks(Kind::loss, Point::forward),
                                  equal_reference(Kind::loss, Point::forward)};
  const std::string quantised = "reference-quantised", inference = "reference-inference";
  return {
      {.name = "split-over-all",
       .role = Role::buggy,
       .summary = "the user's device map is carried out on every rank",
       .claims = trains},
      {.name = "named-maps-overridden",
       .role = Role::wrong_fix,
       .summary =
           "the pull request: auto, balanced and balanced_low_0 become a full copy per rank, "
           "other maps slip through",
       .claims = trains},
      {.name = "refused-then-removed",
       .role = Role::wrong_fix,
       .summary =
           "the proposed refusal, and the user removes device_map as it says: the default is "
           "sequential",
       .claims = trains},
      {.name = "first-device",
       .role = Role::wrong_fix,
       .summary = "the advice device_map={\"\": \"cuda:0\"}: every rank's full copy on one device",
       .claims = trains,
       .without = {"map"}},
      {.name = "overridden",
       .role = Role::fixed,
       .summary = "every map that can split becomes a full copy per rank, with a warning",
       .claims = trains},
      {.name = "refused-then-none",
       .role = Role::fixed,
       .summary = "the proposed refusal, and the user sets device_map=None as it says: the trainer "
                  "moves a full copy",
       .claims = trains},
      {.name = "inference-overridden",
       .role = Role::wrong_fix,
       .summary = "the pull request in inference: a model that only fits split is out of memory",
       .reference = inference,
       .claims = infers,
       .without = {"map", "accumulation"}},
      {.name = "inference-split",
       .role = Role::fixed,
       .summary = "maps are overridden in training only",
       .reference = inference,
       .claims = infers,
       .without = {"map", "accumulation"}},
      {.name = "quantised-split",
       .role = Role::buggy,
       .summary =
           "8-bit weights on other devices than the training one: refused, by a check of ours",
       .reference = quantised,
       .claims = trains},
      {.name = "quantised-overridden",
       .role = Role::fixed,
       .summary = "8-bit weights, a full copy per rank",
       .reference = quantised,
       .claims = trains},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process on the CPU: the mean of all shards' gradients",
       .without = {"map"}},
      {.name = inference,
       .role = Role::reference,
       .summary = "one process on the CPU: the losses of inference",
       .without = {"map", "accumulation"}},
      {.name = quantised,
       .role = Role::reference,
       .summary = "the reference with 8-bit weights",
       .without = {"map"}},
  };
}

}  // namespace

Scenario split_map_under_data_parallel() {
  return {
      .id = "split-map-under-data-parallel",
      .summary =
          "Every rank of a data-parallel run splits its model over all devices, as a device map "
          "says that was meant for one process.",
      .provenance = {.project = "unsloth",
                     .link =
                         "pull request of 2025-12-31, its review and the discussion of 2026-01-01",
                     .kept = "accelerate's policies, unsloth's detection of a distributed run, the "
                             "override and its list of names, the proposed refusal word by word, "
                             "adapters on frozen and on 8-bit weights",
                     .left_out = "bitsandbytes and accelerate's own check of quantised weights, in "
                                 "the place of which stands one of ours; loading from files"},
      .worlds = {2, 3, 4},
      .devices = {"sim", "cuda"},
      .device_needs = [](const Cell& cell) { return DeviceNeeds{device_count(cell)}; },
      .steps = 2,
      .axes = {{"map", kMaps, "sequential"},
               {"inference_map", kMaps, "auto", {"inference-overridden", "inference-split"}},
               {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = {ranks_finish()},
      .tables = {},
      .expect = expect,
      .body = body,
  };
}

}  // namespace lockstep
