// A loader that knows nothing of ranks gives all of them the same samples, because all are seeded
// alike. Their gradients are then equal before they are averaged, and the average is that of one
// rank: as many times the work, for the batch of a single process. All ranks agree on everything,
// and only the samples, or the gradients of another run, tell.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "harness/train/loop/sampler.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kBatch = 3;         // samples of a rank in a step
constexpr std::int64_t kStepsOfEpoch = 2;  // of all ranks together
constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

constexpr Claim kSamplesEqual{Predicate::equal_reference, Kind::data, Phase::pre_forward};

std::int64_t dataset_size(int world_size) { return kBatch * kStepsOfEpoch * world_size; }

/// What the trainer of `owner` makes.
DistributedSampler sampler_of(const Rank& rank, int owner) {
  const std::int64_t size = dataset_size(rank.world_size());
  const std::uint64_t seed = rank.seed(5);
  const auto own_seed = seed + 100 * static_cast<std::uint64_t>(owner);
  if (rank.has("sampler", "of-one-rank")) return {size, 1, 0, seed};
  if (rank.has("sampler", "of-one-rank-with-own-seed")) return {size, 1, 0, own_seed};
  if (rank.has("sampler", "of-rank-0")) return {size, rank.world_size(), 0, seed};
  if (rank.has("sampler", "with-own-seed")) return {size, rank.world_size(), owner, own_seed};
  return {size, rank.world_size(), owner, seed};
}

/// The samples of `owner` in a step, int64 [kBatch].
at::Tensor samples_of(const Rank& rank, int owner, std::int64_t step) {
  DistributedSampler sampler = sampler_of(rank, owner);
  sampler.set_epoch((step - 1) / kStepsOfEpoch);
  const at::Tensor order = at::tensor(sampler.indices(), at::kLong);
  return order.narrow(0, (step - 1) % kStepsOfEpoch * kBatch, kBatch).contiguous();
}

/// The rows of `samples`, each drawn by its number.
at::Tensor rows_of(Rank& rank, const at::Tensor& samples, std::uint64_t base, std::int64_t width) {
  std::vector<at::Tensor> rows;
  for (std::int64_t i = 0; i < samples.numel(); ++i) {
    const auto sample = static_cast<std::uint64_t>(samples[i].item<std::int64_t>());
    rows.push_back(at::randn({width}, cpu_generator(rank.seed(base + sample)), at::kFloat));
  }
  return rank.input(at::stack(rows));
}

/// Which samples of the step's batch this rank reads, as its share and as they are; those of all
/// ranks in the reference.
void observe_samples(Rank& rank, std::int64_t step) {
  const std::int64_t all = kBatch * rank.world_size();
  if (!rank.is_reference()) {
    const at::Tensor own = samples_of(rank, rank.rank(), step);
    const Shard share{{all}, {kBatch * rank.rank()}};
    rank.observer().observe(Phase::pre_forward, Kind::data,
                            {"samples", own, share, group_of_one(rank.rank())});
    rank.observer().observe(Phase::post_backward, Kind::data, {"samples", own});
    return;
  }
  std::vector<at::Tensor> samples;
  for (int owner = 0; owner < rank.world_size(); ++owner) {
    samples.push_back(samples_of(rank, owner, step));
  }
  rank.observer().observe(Phase::pre_forward, Kind::data, {"samples", at::cat(samples)});
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run({.before =
                    [&](std::int64_t step) {
                      rank.at_branch();
                      observe_samples(rank, step);
                    },
                .loss =
                    [&](const MicroBatch& batch) {
                      const at::Tensor samples = samples_of(rank, batch.owner, batch.step);
                      const at::Tensor output =
                          training.forward(rows_of(rank, samples, 1'000'000, kInputs));
                      return (output - rows_of(rank, samples, 2'000'000, kOutputs)).pow(2).mean();
                    }});
}

/// All ranks agree, on the gradients of other samples. `off` are the ranks that read those.
Expectation expect_other_samples(const Cell& cell, std::vector<std::vector<int>> off) {
  const Pin samples{.claim = kSamplesEqual,
                    .steps = {1},
                    .last_step = cell.steps,
                    .tensors = {"samples"},
                    .groups = std::move(off)};
  Expectation expectation = pinned(expect_alike_but_wrong(cell, {}), {samples});
  expectation.pins.front().why = "the samples are random";
  expectation.breaks.push_back(kSamplesEqual);
  return expectation;
}

Expectation expect_samples_of_no_rank(const Cell& cell) {
  return expect_other_samples(cell, each_alone(cell));
}

/// `expectation`, with the same samples on all ranks.
Expectation not_divided(const Cell& cell, Expectation expectation) {
  expectation.breaks.push_back(kSamplesDiffer);
  return pinned(std::move(expectation), {same_on_all_ranks(cell, kSamplesDiffer, "samples", 1)});
}

Expectation expect_same_order(const Cell& cell) {
  return not_divided(cell, expect_samples_of_no_rank(cell));
}

/// Rank 0 reads its own share.
Expectation expect_samples_of_others(const Cell& cell) {
  std::vector<std::vector<int>> others = each_alone(cell);
  others.erase(others.begin());
  return expect_other_samples(cell, std::move(others));
}

/// The mean is rank 0's gradient: of two ranks bit for bit, since twice a number is exact.
Expectation expect_samples_of_rank_0(const Cell& cell) {
  Expectation expectation = expect_samples_of_others(cell);
  if (cell.world_size == 2) {
    expectation.pins.front().attribution = GradientAttribution::other_rank;
  }
  return not_divided(cell, std::move(expectation));
}

}  // namespace

Scenario same_batch_on_every_rank() {
  return {
      .summary =
          "All ranks read the same samples: the averaged gradient is that of one rank, and all "
          "agree.",
      .origin = {"rbyte, openspeech, LongLive",
                 "yaak-ai/rbyte#106 (2026-07-12); openspeech-team/openspeech#149 (2022-03-14), "
                 "Parskatt/RoMa#32, karpathy/llama2.c#522; NVlabs/LongLive#71 (2026-07-14)",
                 "a sampler that is made for one process; the repair, torch's DistributedSampler; "
                 "llama2.c's seed for each rank, and LongLive's, which cuts different orders",
                 "loaders, workers, and a sampler that is made before the process group"},
      .variants =
          {buggy("sampler-of-one-rank", "each rank's sampler is for one process, and seeded alike",
                 "sampler=of-one-rank", expect_same_order),
           buggy("sampler-of-rank-0", "each rank's sampler is that of rank 0", "sampler=of-rank-0",
                 expect_samples_of_rank_0),
           wrong_fix("own-seeds",
                     "samplers for one process with a seed for each rank: samples are read twice, "
                     "or not at all",
                     "sampler=of-one-rank-with-own-seed", expect_samples_of_no_rank),
           wrong_fix("divided-with-own-seeds",
                     "each rank takes its share of another order: the shares overlap",
                     "sampler=with-own-seed", expect_samples_of_others),
           fixed("divided", "each rank takes its share of the order that all have drawn",
                 "sampler=of-rank"),
           reference("reference", "one process: the samples of all ranks")},
      .steps = 5,
      .axes = {wrapper_axis()},
      .claims = claims_before({kSamplesEqual, kSamplesDiffer}, replica_claims()),
      .body = train,
  };
}

}  // namespace lockstep
