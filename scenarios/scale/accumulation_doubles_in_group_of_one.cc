// An engine reduces each micro-batch's gradients from a bucket into the rank's part of a buffer,
// and adds up there. With one rank to shard over there is nothing to reduce, so bucket and buffer
// become the same memory: adding one to the other doubles what was accumulated so far. All replicas
// agree, and the error grows as a power of the number of micro-batches.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "harness/train/ddp/mesh.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

std::int64_t elements_of(const std::vector<at::Tensor>& parameters) {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters) elements += parameter.numel();
  return elements;
}

/// What a rank does with its bucket if there is no other rank to reduce it with.
struct AloneOptions {
  bool shares_memory = false;  ///< the buffer is the bucket
  bool adds = true;            ///< the bucket to the buffer
  bool copies = false;         ///< the bucket into the buffer
};

/// Gradients of a model, accumulated over micro-batches: a rank's part of their mean over `shards`.
class ShardedBuffer {
 public:
  ShardedBuffer(std::vector<at::Tensor> parameters, ProcessGroup& shards, AloneOptions alone)
      : parameters_(std::move(parameters)), shards_(shards), alone_(alone) {
    const std::int64_t ranks = shards_.size();
    const std::int64_t part = (elements_of(parameters_) + ranks - 1) / ranks;
    bucket_ = at::zeros({part * ranks}, parameters_.front().options());
    part_ = is_alone() && alone_.shares_memory ? bucket_ : at::zeros({part}, bucket_.options());
  }

  /// From now on, backward adds gradients to the bucket.
  void begin_step() {
    bucket_.zero_();
    part_.zero_();
    show(bucket_);
  }

  /// After the backward of each micro-batch.
  void take_bucket() {
    if (!is_alone()) {
      at::Tensor reduced = at::zeros_like(part_);
      shards_.reduce_scatter(reduced, bucket_, ReduceOp::average);
      part_ += reduced;
    } else if (alone_.copies) {
      part_.copy_(bucket_);
    } else if (alone_.adds) {
      part_ += bucket_;
    }
    if (!part_.is_alias_of(bucket_)) bucket_.zero_();
  }

  /// Averages over the replicas, and shows the parameters their whole gradients.
  void finish_step(ProcessGroup& replicas) {
    replicas.all_reduce(part_, ReduceOp::average);
    at::Tensor whole = at::zeros_like(bucket_);
    shards_.all_gather(whole, part_);
    show(whole);
  }

 private:
  bool is_alone() const { return shards_.size() == 1; }

  void show(const at::Tensor& flat) const {
    std::int64_t first = 0;
    for (const at::Tensor& parameter : parameters_) {
      parameter.mutable_grad() = flat.narrow(0, first, parameter.numel()).view(parameter.sizes());
      first += parameter.numel();
    }
  }

  std::vector<at::Tensor> parameters_;
  ProcessGroup& shards_;
  AloneOptions alone_;
  at::Tensor bucket_;  ///< [elements, padded]
  at::Tensor part_;    ///< [elements of a part]
};

at::Tensor loss_of(Rank& rank, const Module::Forward& forward, MicroBatch batch) {
  if (rank.has("micro_batches", "alike")) batch.index = 0;
  return squared_error(rank, batch, regression_of_rank(batch.owner, kInputs, kOutputs), forward);
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.sync = GradientSync::none;
  Training training(rank, model, options);
  const auto forward = [&](const at::Tensor& input) { return model(input); };
  StepHooks hooks{.loss = [&](const MicroBatch& batch) { return loss_of(rank, forward, batch); }};
  if (rank.is_reference()) return training.run(hooks);
  const Mesh mesh(rank.group(), static_cast<int>(rank.number("shards")));
  ShardedBuffer buffer(model.parameters(), mesh.row(),
                       {.shares_memory = rank.has("memory", "shared"),
                        .adds = rank.has("alone", "added"),
                        .copies = rank.has("alone", "copied")});
  rank.at_branch();
  hooks.gradients = [&](std::int64_t step) {
    buffer.begin_step();
    for (std::int64_t index = 0; index < options.accumulation; ++index) {
      (loss_of(rank, forward, {rank.rank(), step, index}) / options.accumulation).backward();
      buffer.take_bucket();
    }
    buffer.finish_step(mesh.column());
    return true;
  };
  training.run(hooks);
}

/// Micro-batches with unequal weights, whose sum is `times` the right one.
Expectation expect_unequal_weights(const Cell& cell, double times) {
  if (number_on(cell, "shards") > 1) return expect_hidden();
  const bool is_multiple =
      is_set(cell, "micro_batches", "alike") || number_on(cell, "accumulation") == 1;
  if (is_multiple) return times == 1 ? expect_hidden() : expect_multiple(cell, times);
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = "micro-batches are random, and do not count alike";
  return expectation;
}

/// Of n micro-batches, each counts twice as much as the next, and the last one twice.
Expectation expect_doubled_each_time(const Cell& cell) {
  const auto micro_batches = static_cast<double>(number_on(cell, "accumulation"));
  return expect_unequal_weights(cell, (std::exp2(micro_batches + 1) - 2) / micro_batches);
}

Expectation expect_last_one_alone(const Cell& cell) {
  return expect_unequal_weights(cell, 1 / static_cast<double>(number_on(cell, "accumulation")));
}

std::string refuse_uneven_shards(const Cell& cell) {
  if (cell.world_size % number_on(cell, "shards") == 0) return "";
  return "the ranks are no multiple of those that a replica is sharded over";
}

}  // namespace

Scenario accumulation_doubles_in_group_of_one() {
  return {
      .summary =
          "With one rank to shard over, the buffer that accumulates gradients is its own input: "
          "every micro-batch doubles what was there.",
      .origin =
          {"Megatron-LM, Fast-LLM",
           "NVIDIA/Megatron-LM#6660 (2026-08-19); ServiceNow/Fast-LLM#551 (2026-06-30)",
           "a buffer that each micro-batch is reduced into, with one rank or two to shard over, "
           "and replicas; Fast-LLM's copy in place of the sum",
           "experts, whose groups are those of one rank there; the issue's recurrence, in which "
           "the last micro-batch counts once: here twice, because backward adds to the bucket"},
      .variants = {buggy("added-to-itself", "bucket and buffer are the same memory, and are added",
                         "memory=shared alone=added", expect_doubled_each_time),
                   buggy("copied-over",
                         "the bucket is copied into the buffer: only the last micro-batch is left",
                         "memory=own alone=copied", expect_last_one_alone),
                   fixed("left-in-place", "the same memory, in which backward has added up already",
                         "memory=shared alone=left"),
                   fixed("added-from-own-memory",
                         "the bucket has memory of its own, as with more ranks",
                         "memory=own alone=added"),
                   reference("reference", "one process: the mean over the ranks' micro-batches")},
      .axes = {{"shards", {"1", "2"}, "1"},
               {"accumulation", {"1", "2", "4"}, "2"},
               {"micro_batches", {"drawn", "alike"}, "drawn"}},
      .claims = replica_claims(),
      .precondition = refuse_uneven_shards,
      .body = train,
  };
}

}  // namespace lockstep
