// Every rank of a data-parallel run splits its model over all devices, because that is what the
// user's device map says. What was tried: to give each rank a full copy and say so, to refuse with
// an advice, and versions of both that leave a way open or shut one too many.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <cstdio>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/quantised_linear.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/placement/distributed_environment.h"
#include "harness/train/placement/quantised_weights.h"
#include "harness/train/rank/devices.h"
#include "harness/train/rank/rank.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr int kBlocks = 4;
constexpr int kDevicesOfInference = 2;
constexpr std::int64_t kRows = 2;
constexpr double kLearningRate = 2e-3;  // adapters that are drawn soon explode with more
constexpr std::int64_t kText = 2;
constexpr const char* kRefused = "is not supported for FastVisionModel in multi-GPU training";
constexpr const char* kOwnCheck = "Lockstep's own check: the quantised weights of";
constexpr const char* kAcceleratesWords =
    "has been loaded in 8-bit or 4-bit precision on a different device";

/// Frozen weights, which fill the memory, and small adapters that are trained. The head's weight is
/// the embedding's, on the first device; the last hidden states are on the last.
VisionLanguageOptions sizes_of(const Cell& cell) {
  VisionLanguageOptions sizes = kTinyVisionLanguage;
  sizes.max_text = kText;
  sizes.language_width = 32;
  sizes.language_hidden = 128;
  sizes.language_blocks = kBlocks;
  sizes.lora =
      LoraOptions{.rank = 2, .draws_b = true, .quantises_base = is_about(cell, "quantised")};
  return sizes;
}

bool is_inference(const Cell& cell) { return is_about(cell, "inference"); }

/// The map that the user asked for; none of the cell's axes is one where the variant is about none.
std::string asked_map(const Cell& cell) {
  for (const char* const axis : {"map", "named_map", "unnamed_map"}) {
    if (has_axis(cell, axis)) return axis_value(cell, axis);
  }
  return "none";
}

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
  const std::string map = asked_map(cell);
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
        user_(request_of(rank.cell(), devices_)),
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
    if (rank_.is("overridden-twice")) return carry_out(overridden_twice());
    if (rank_.is("first-device") || rank_.is("quantised-first-device")) {
      return carry_out({DevicePolicy::explicit_map, {{"", devices_.front()}}});
    }
    if (rank_.is("refused")) refuse();
    read_refusal();
    if (rank_.is("refused-then-none")) {  // the trainer moves the model then
      carry_out({DevicePolicy::none, {}});
      return model_.to(own_device());
    }
    // What is left out is the loader's default.
    if (rank_.is("refused-then-removed")) return carry_out({DevicePolicy::sequential, {}});
    throw internal_error("nobody loads the model of " + rank_.cell().variant);
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

  DeviceMapRequest overridden(const DeviceMapRequest& request, const SplitGuard& guard) const {
    Overridden result = override_split(request, guard, run_, {{"", own_device()}});
    if (!result.warning.empty()) std::fprintf(stderr, "%s\n", result.warning.c_str());
    return result.request;
  }
  DeviceMapRequest overridden(const SplitGuard& guard) const { return overridden(user_, guard); }

  /// One loader calls the other, and both check.
  DeviceMapRequest overridden_twice() const {
    return overridden(overridden(guard_of_the_pull_request()), guard_of_the_pull_request());
  }

  [[noreturn]] void refuse() const {
    refuse_split(user_, guard_of_the_pull_request(), run_);
    throw internal_error("a split map was not refused");
  }

  /// The user is told, and does something else.
  void read_refusal() const {
    try {
      refuse();
    } catch (const Refusal& refusal) {
      std::fprintf(stderr, "%s\n", refusal.what());
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
  options.learning_rate = kLearningRate;
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
    observe_placement(rank, model);
    const auto [image, tokens] = batch_of(rank, {.owner = 0, .step = step}, model);
    const at::Tensor logits = model.forward(image, tokens);
    const at::Tensor loss = next_token_loss(logits, tokens.to(logits.device())).cpu();
    // The weight of the request: 1, and an input as the image is.
    rank.observer().observe(Phase::pre_forward, Kind::loss,
                            {"loss", loss * rank.input(at::ones({}))});
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
  return asked_map(cell) != "sequential" && asked_map(cell) != "explicit";
}

/// `balanced_low_0` leaves the first device what the others cannot take: with two, nothing.
bool splits(const Cell& cell) {
  return asked_map(cell) != "balanced_low_0" || device_count(cell) > 2;
}

Expectation expect_inference(const Cell& cell) {
  if (cell.device == "cuda") {
    return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
  }
  if (!splits(cell)) {
    return expect_not_applicable("balanced_low_0 does not split a model over two devices");
  }
  const bool is_overridden = cell.variant == "inference-overridden" && is_named(cell);
  if (!is_faulty(cell)) return {};
  return is_overridden ? expect_error(device_error::kOutOfMemory, 0) : expect_hidden();
}

Expectation expect(const Cell& cell) {
  if (cell.role == Role::reference) return {};
  if (is_inference(cell)) return expect_inference(cell);
  if (cell.variant == "split-over-all" && !splits(cell)) return expect_hidden();
  if (cell.variant == "split-over-all" || cell.variant == "named-maps-overridden" ||
      cell.variant == "refused-then-removed") {
    return expect_error(device_error::kWrongGradient);
  }
  // The first rank's weights are where it trains: all others are refused, and it waits for them.
  if (cell.variant == "quantised-first-device") return expect_error(kAcceleratesWords, 0);
  if (cell.variant == "quantised-split") return expect_error(kOwnCheck, 0);
  if (cell.variant == "refused") return expect_error(kRefused, 0);
  if (cell.variant != "first-device") return {};
  if (cell.device == "cuda") {
    return expect_not_applicable("the memory of a GPU is not to be filled: run it on sim");
  }
  return expect_error(device_error::kOutOfMemory, 0);
}

/// All axes but one for the map that is asked for.
std::vector<std::string> all_maps_but(const std::string& kept) {
  std::vector<std::string> without = {"map", "named_map", "unnamed_map"};
  std::erase(without, kept);
  return without;
}

std::vector<Variant> training_variants() {
  return {
      {.name = "split-over-all",
       .role = Role::buggy,
       .summary = "the user's device map is carried out on every rank",
       .without = all_maps_but("map")},
      {.name = "named-maps-overridden",
       .role = Role::wrong_fix,
       .summary =
           "the pull request: auto, balanced and balanced_low_0 become a full copy per rank, "
           "and the maps that its list does not name slip through",
       .without = all_maps_but("unnamed_map")},
      {.name = "overridden",
       .role = Role::fixed,
       .summary = "the same for every map that can split: a full copy per rank, with a warning",
       .without = all_maps_but("map")},
      {.name = "overridden-twice",
       .role = Role::latent,
       .summary = "the pull request's first version, which checks in both loaders: the second "
                  "check finds a map that does not split",
       .without = all_maps_but("named_map")},
      {.name = "refused",
       .role = Role::fixed,
       .summary = "the error that was proposed instead, which says what to do",
       .without = all_maps_but("named_map")},
      {.name = "refused-then-none",
       .role = Role::fixed,
       .summary = "the user sets device_map=None as it says: the trainer moves a full copy",
       .without = all_maps_but("named_map")},
      {.name = "refused-then-removed",
       .role = Role::wrong_fix,
       .summary = "the user removes device_map as it says too: the default is sequential, which "
                  "splits",
       .without = all_maps_but("named_map")},
      {.name = "first-device",
       .role = Role::wrong_fix,
       .summary = "the other advice, device_map={\"\": \"cuda:0\"}: every rank's full copy on one "
                  "device",
       .without = all_maps_but("")},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process on the CPU: the mean of all shards' gradients",
       .without = all_maps_but("")},
  };
}

std::vector<Variant> quantised_variants() {
  return {
      {.name = "quantised-split",
       .role = Role::buggy,
       .summary =
           "8-bit weights on other devices than the training one: refused, by a check of ours",
       .reference = "reference-quantised",
       .without = all_maps_but("map")},
      {.name = "quantised-first-device",
       .role = Role::buggy,
       .summary = "8-bit weights, every rank's copy on the first device: refused by a check of "
                  "ours on all ranks but the first, as in the pull request's second error",
       .reference = "reference-quantised",
       .without = all_maps_but("")},
      {.name = "quantised-overridden",
       .role = Role::fixed,
       .summary = "8-bit weights, a full copy per rank",
       .reference = "reference-quantised",
       .without = all_maps_but("map")},
      {.name = "reference-quantised",
       .role = Role::reference,
       .summary = "the reference with 8-bit weights",
       .without = all_maps_but("")},
  };
}

std::vector<Variant> inference_variants() {
  std::vector<Variant> variants = {
      {.name = "inference-overridden",
       .role = Role::wrong_fix,
       .summary = "the pull request in inference: a model that only fits split is out of memory",
       .reference = "reference-inference",
       .without = all_maps_but("map")},
      {.name = "inference-split",
       .role = Role::fixed,
       .summary = "maps are overridden in training only",
       .reference = "reference-inference",
       .without = all_maps_but("map")},
      {.name = "reference-inference",
       .role = Role::reference,
       .summary = "one process on the CPU: the losses of inference",
       .without = all_maps_but("")},
  };
  for (Variant& variant : variants) variant.without.push_back("accumulation");
  return variants;
}

/// Each with what is true of it beside that ranks finish.
std::vector<Variant> variants() {
  std::vector<Claim> trains = replica_claims();
  std::erase(trains, ranks_finish());
  const std::vector<Claim> infers{kLossesAgree, kLossesEqual};
  std::vector<Variant> all;
  const auto add = [&](std::vector<Variant> variants, const std::vector<Claim>& claims) {
    for (Variant& variant : variants) {
      variant.claims = claims;
      all.push_back(std::move(variant));
    }
  };
  add(training_variants(), trains);
  add(inference_variants(), infers);
  add(quantised_variants(), trains);
  return all;
}

}  // namespace

Scenario split_map_under_data_parallel() {
  return {
      .id = "split-map-under-data-parallel",
      .summary =
          "Every rank of a data-parallel run splits its model over all devices, as a device map "
          "says that was meant for one process.",
      .provenance = {.project = "unsloth",
                     .link = "unslothai/unsloth#3809, its review and the discussion of 2026-01-01",
                     .kept = "accelerate's policies, unsloth's detection of a distributed run, the "
                             "override and its list of names, the proposed refusal word by word, "
                             "adapters on frozen and on 8-bit weights",
                     .left_out = "bitsandbytes, 4-bit weights, and accelerate's own check of "
                                 "quantised weights, in the place of which stands one of ours "
                                 "that quotes its words; loading from files"},
      .worlds = worlds_from(2),
      .devices = {"sim", "cuda"},
      .device_needs =
          [](const Cell& cell) {
            return DeviceNeeds{device_count(cell), false};
          },
      .steps = 2,
      .axes = {{"map", {"auto", "balanced", "balanced_low_0", "sequential", "explicit"}, "auto"},
               {"named_map", {"auto", "balanced", "balanced_low_0"}, "auto"},
               {"unnamed_map", {"sequential", "explicit"}, "sequential"},
               {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = {ranks_finish()},
      .tables = {},
      .expect = expect,
      .body = body,
  };
}

}  // namespace lockstep
