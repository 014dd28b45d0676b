// A run stops in the middle of an epoch and goes on from a checkpoint. Its data loader has three
// things to restore: the epoch, which orders the samples, the batches that it has given out, and
// the state of the random numbers with which it augments them. If one is lost, all ranks agree on
// gradients of other data. Skipping batches draws random numbers, too, so the order counts.

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include "harness/train/loop/sampler.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;
constexpr std::int64_t kBatch = 3;       // samples
constexpr std::int64_t kEpoch = 2;       // batches of a rank
constexpr std::int64_t kSavedAfter = 3;  // steps: one of the second epoch
constexpr double kNoise = 0.5;

struct Batch {
  at::Tensor input, target;
};

/// The batches of one rank, with noise on their inputs.
class NoisyLoader {
 public:
  NoisyLoader(Rank& rank, int owner)
      : rank_(&rank),
        sampler_(kBatch * kEpoch * rank.world_size(), rank.world_size(), owner, rank.seed(0)),
        generator_(cpu_generator(rank.seed(1000 + static_cast<std::uint64_t>(owner)))) {}

  /// Goes to the beginning of an epoch.
  void set_epoch(std::int64_t epoch) {
    sampler_.set_epoch(epoch_ = epoch);
    given_out_ = 0;
  }

  Batch next() {
    if (given_out_ == kEpoch) set_epoch(epoch_ + 1);
    const std::vector<std::int64_t> indices = sampler_.indices();
    std::vector<at::Tensor> inputs, targets;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const MicroBatch sample{.step =
                                  1 + indices[static_cast<std::size_t>(given_out_ * kBatch + i)]};
      inputs.push_back(normal_input(*rank_, sample, 1'000'000, {kInputs}));
      targets.push_back(normal_input(*rank_, sample, 2'000'000, {kOutputs}));
    }
    ++given_out_;
    const at::Tensor noise = at::randn({kBatch, kInputs}, generator_, at::TensorOptions());
    const at::Tensor input = at::stack(inputs);
    return {input + noise.to(input.device()) * kNoise, at::stack(targets)};
  }

  void skip(std::int64_t batches) {
    for (std::int64_t i = 0; i < batches; ++i) next();
  }

  at::Tensor random_state() const { return generator_.get_state(); }
  void restore_random_state(const at::Tensor& state) { generator_.set_state(state); }

 private:
  Rank* rank_;
  DistributedSampler sampler_;
  at::Generator generator_;
  std::int64_t epoch_ = 0;
  std::int64_t given_out_ = 0;  ///< batches of the epoch
};

/// The state of the random numbers that a rank loads, if each saves `own`.
at::Tensor loaded_state(Rank& rank, const at::Tensor& own) {
  if (!rank.has("random", "of-rank-0")) return own;
  at::Tensor state = own.clone().to(rank.group().device());
  rank.group().broadcast(state, 0);
  return state.cpu();
}

/// The loader of a new process, which has given out nothing and is in its first epoch.
NoisyLoader resumed_loader(Rank& rank, const at::Tensor& saved_state) {
  rank.at_branch();
  NoisyLoader loader(rank, rank.rank());
  if (rank.has("random", "before-skip")) loader.restore_random_state(saved_state);
  if (!rank.has("epoch", "first")) loader.set_epoch(kSavedAfter / kEpoch);
  if (!rank.has("position", "beginning")) loader.skip(kSavedAfter % kEpoch);
  if (rank.has("random", "of-rank-0") || rank.has("random", "after-skip")) {
    loader.restore_random_state(loaded_state(rank, saved_state));
  }
  return loader;
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  std::vector<NoisyLoader> loaders;
  for (int owner = 0; owner < rank.world_size(); ++owner) loaders.emplace_back(rank, owner);
  at::Tensor saved_state;
  training.run({
      .before =
          [&](std::int64_t step) {
            if (step != kSavedAfter + 1 || rank.is_reference()) return;
            NoisyLoader& own = loaders[static_cast<std::size_t>(rank.rank())];
            own = resumed_loader(rank, saved_state);
          },
      .loss =
          [&](const MicroBatch& batch) {
            const auto [input, target] = loaders[static_cast<std::size_t>(batch.owner)].next();
            return (training.forward(input) - target).pow(2).mean();
          },
      .after =
          [&](std::int64_t step) {
            if (rank.is_reference()) return;
            const at::Tensor state = loaders[static_cast<std::size_t>(rank.rank())].random_state();
            rank.observer().observe(Phase::post_step, Kind::random_state, {"loader", state});
            if (step == kSavedAfter) saved_state = state;
          },
  });
}

Expectation expect_other_data(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {}, true, kSavedAfter + 1);
  expectation.pins.front().why = "samples and noise are random";
  return expectation;
}

Expectation expect_data_of_rank_0(const Cell& cell) {
  Expectation expectation = expect_other_data(cell);
  expectation.breaks.push_back(kRandomStatesDiffer);
  return pinned(std::move(expectation),
                {same_on_all_ranks(cell, kRandomStatesDiffer, "loader", kSavedAfter + 1)});
}

std::string resume_precondition(const Cell& cell) {
  return cell.steps > kSavedAfter ? "" : "the run is resumed after step 3";
}

}  // namespace

Scenario resume_loses_sampler_and_rng() {
  return {
      .summary =
          "A run that is resumed in the middle of an epoch goes on with other samples, or with "
          "other random numbers: all ranks agree on gradients of other data.",
      .origin =
          {"accelerate, transformers, ms-swift, miles",
           "huggingface/accelerate#4071 (2026-06-10), #2016 (2023-10-11); "
           "huggingface/transformers#46628 (2026-06-13), modelscope/ms-swift#10050 (2026-09-06), "
           "#9935; radixark/miles#3187 (2026-09-10)",
           "a distributed sampler and noise that the loader draws; the epoch that the rebuilt "
           "loader resets, batches that are skipped, states that skipping advances or that are "
           "rank 0's",
           "files and other processes: here each rank makes a new loader between two steps; "
           "worker processes"},
      .variants =
          {buggy("epoch-reset", "the new loader begins with the order of its first epoch",
                 "epoch=first position=restored random=after-skip", expect_other_data),
           buggy("random-lost", "the random numbers begin again with the seed",
                 "epoch=restored position=restored random=lost", expect_other_data),
           buggy("random-of-rank-0", "all ranks load the state that rank 0 saved",
                 "epoch=restored position=restored random=of-rank-0", expect_data_of_rank_0),
           wrong_fix("epoch-repeated",
                     "the epoch is restored, but not the batches that it has given out",
                     "epoch=restored position=beginning random=after-skip", expect_other_data),
           wrong_fix("restored-before-skip",
                     "the state is restored before batches are skipped, which draws from it",
                     "epoch=restored position=restored random=before-skip", expect_other_data),
           fixed("all-restored", "the epoch, then the batches skipped, then the random state",
                 "epoch=restored position=restored random=after-skip"),
           reference("reference", "one process that never stops")},
      .steps = 6,
      .claims = claims_before({kRandomStatesDiffer}, replica_claims()),
      .precondition = resume_precondition,
      .body = train,
  };
}

}  // namespace lockstep
