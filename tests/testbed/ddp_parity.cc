// The small training that tests/parity/ddp_parity.py runs with Python's DistributedDataParallel, in
// every combination of its options. Both sides must agree in outcome, collectives and bits. The
// name of a variant is its words, joined by "+"; the Python side reads them from the folders of a
// run.

#include <ATen/ops/randn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"
#include "tests/parity/parity_scenario.h"

namespace lockstep {

namespace {

/// When the layer `extra` contributes to the loss.
constexpr std::array<std::string_view, 5> kUses{"always", "never", "not-on-last-rank",
                                                "not-in-step-2", "output-without-loss"};

constexpr std::array<std::string_view, 6> kFlags{"find-unused", "static",    "bucket-view",
                                                 "no-sync",     "comm-hook", "small-buckets"};

// Bits of a set of flags.
constexpr unsigned kStatic = 1U << 1, kBucketView = 1U << 2, kNoSync = 1U << 3;
constexpr unsigned kCommHook = 1U << 4, kSmallBuckets = 1U << 5;

/// 32 float32: the model's gradients need several buckets.
constexpr std::int64_t kSmallBucketBytes = 128;

/// The parts are registered in another order than they are used in. So rebuilding the buckets in
/// the order of the gradients changes them.
struct Model : Module {
  explicit Model(const at::Generator& generator)
      : scale(register_parameter("scale", at::randn({3}, generator, at::TensorOptions()))),
        last(register_module("last", std::make_shared<Linear>(5, 3, generator))),
        extra(register_module("extra", std::make_shared<Linear>(5, 5, generator))),
        norm(register_module("norm", std::make_shared<BatchNorm1d>(5))),
        first(register_module("first", std::make_shared<Linear>(6, 5, generator))) {}

  /// The output and, if `extra` is used, its output.
  std::vector<at::Tensor> outputs(const at::Tensor& input, bool uses_extra, bool adds_extra) {
    at::Tensor hidden = norm->forward(first->forward(input)).relu();
    if (!uses_extra) return {last->forward(hidden) * scale};
    const at::Tensor more = extra->forward(hidden);
    if (adds_extra) hidden = hidden + more;
    return {last->forward(hidden) * scale, more};
  }

  at::Tensor forward(const at::Tensor& input) override { return outputs(input, true, true)[0]; }

  at::Tensor scale;
  std::shared_ptr<Linear> last;
  std::shared_ptr<Linear> extra;
  std::shared_ptr<BatchNorm1d> norm;
  std::shared_ptr<Linear> first;
};

bool uses_extra(const Rank& rank, std::int64_t step) {
  if (rank.has("never")) return false;
  if (rank.has("not-on-last-rank")) return rank.rank() != rank.world_size() - 1;
  return !(rank.has("not-in-step-2") && step == 2);
}

DdpOptions options_of(const Rank& rank) {
  DdpOptions options;
  options.find_unused_parameters = rank.has("find-unused");
  options.static_graph = rank.has("static");
  options.gradient_as_bucket_view = rank.has("bucket-view");
  options.broadcast_buffers = !rank.has("no-broadcast");
  if (rank.has("small-buckets")) options.bucket_bytes = kSmallBucketBytes;
  return options;
}

/// Half of the mean: no other reduction gives the same gradients.
at::Tensor half_mean(ProcessGroup& group, const at::Tensor& bucket) {
  at::Tensor reduced = bucket / group.size();
  group.all_reduce(reduced, ReduceOp::sum);
  return reduced * 0.5;
}

at::Tensor input_of(const Rank& rank, std::int64_t step, std::int64_t micro_batch) {
  const std::int64_t seed = 1000 * step + 100 * micro_batch + rank.rank();
  return at::randn({4 + rank.rank(), 6}, cpu_generator(rank.seed(seed)), at::TensorOptions());
}

void backward(Rank& rank, DistributedDataParallel& ddp, Model& model, std::int64_t micro_batch) {
  const std::int64_t step = rank.step();
  std::vector<at::Tensor> outputs = ddp.forward([&] {
    return model.outputs(input_of(rank, step, micro_batch), uses_extra(rank, step),
                         !rank.has("output-without-loss"));
  });
  outputs[0].mul_(3);  // in place: the wrapper's result may be modified
  outputs[0].pow(2).mean().backward();
  rank.observer().begin_micro_batch(micro_batch);
  rank.observe_gradients(Phase::pre_step, model);
}

/// If ranks join, the last one has no batch in the last step.
std::optional<DistributedDataParallel::Join> join_of(const Rank& rank,
                                                     DistributedDataParallel& ddp) {
  using Join = DistributedDataParallel::Join;
  if (rank.has("join")) return Join(ddp);
  if (rank.has("join-by-present")) return Join(ddp, Join::Divisor::ranks_with_batches);
  return std::nullopt;
}

void train(Rank& rank) {
  rank.at_branch();
  Model model(cpu_generator(rank.seed(100 * rank.rank() + 7)));
  DistributedDataParallel ddp(model, rank.group(), options_of(rank));
  if (rank.has("comm-hook")) ddp.register_comm_hook(half_mean);
  Sgd optimizer(model.parameters(), /*learning_rate=*/0.1);

  std::optional<DistributedDataParallel::Join> join = join_of(rank, ddp);

  rank.train([&](std::int64_t step) {
    const bool is_last = step == rank.cell().steps;
    const bool has_batch = !join || !is_last || rank.rank() != rank.world_size() - 1;
    model.zero_grad();
    if (rank.has("no-sync")) {
      const auto no_sync = ddp.no_sync();
      backward(rank, ddp, model, 0);
    }
    if (has_batch) backward(rank, ddp, model, 1);
    optimizer.step();
    if (join && is_last) join->finish();
    rank.observer().begin_micro_batch(1);
    rank.observe_parameters(Phase::post_step, model);
    rank.observe_buffers(Phase::post_step, model);
  });
}

std::string name_of(std::string_view use, unsigned chosen) {
  std::string name(use);
  for (std::size_t i = 0; i < kFlags.size(); ++i) {
    if (chosen >> i & 1U) name.append("+").append(kFlags[i]);
  }
  return name;
}

/// With the defaults this model is one bucket, whatever the other options. A static graph that
/// begins inside no_sync raises in its first backward, regardless of the buckets.
bool adds_something(unsigned chosen) {
  if (chosen != 0 && (chosen & kSmallBuckets) == 0) return false;
  const bool raises = (chosen & kStatic) && (chosen & kNoSync);
  return !raises || (chosen & (kBucketView | kCommHook)) == 0;
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string_view use : kUses) {
    for (unsigned chosen = 0; chosen < 1U << kFlags.size(); ++chosen) {
      if (!adds_something(chosen)) continue;
      all.push_back(variant_of_words({name_of(use, chosen)}));
    }
  }
  all.push_back(variant_of_words({"always", "no-broadcast"}));
  for (const char* buckets : {"", "small-buckets", "bucket-view+small-buckets"}) {
    for (const char* join : {"join", "join-by-present"}) {
      all.push_back(variant_of_words({"always", "no-broadcast", buckets, join}));
    }
  }
  return all;
}

}  // namespace

Scenario ddp_parity() {
  return parity_scenario("A small training in all combinations of what DDP can be asked for.",
                         variants(), train);
}

}  // namespace lockstep
