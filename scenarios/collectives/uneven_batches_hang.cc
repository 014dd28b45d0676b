// One rank has a batch less than the others. They wait for it in the reduction of a gradient while
// it is in the evaluation behind the loop. What a repair has to say is what becomes of the others'
// last batch: left out, trained with the rank's first one again, or with nothing from it, and then
// what the sum is divided by.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/loop/trainer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

/// The rank that has a batch less: one in each step but the last.
int short_rank(const Cell& cell) {
  return is_set(cell, "short-rank", "first") ? 0 : cell.world_size - 1;
}

std::int64_t batches_of(const Cell& cell, int owner) {
  return owner == short_rank(cell) ? cell.steps - 1 : cell.steps;
}

/// A rank's training, and the join of DDP where the variant is about that.
struct Training {
  explicit Training(Rank& its_rank) : rank(its_rank) {
    using Join = DistributedDataParallel::Join;
    if (rank.is("join")) join.emplace(*trainer.ddp());
    if (rank.is("join-divided-by-those-that-have")) {
      join.emplace(*trainer.ddp(), Join::Divisor::ranks_with_batches);
    }
  }

  at::Tensor loss_on(int owner, std::int64_t batch_number) {
    const MicroBatch batch{owner, batch_number};
    const std::int64_t rows = 2 + owner;
    const at::Tensor output = trainer.output(normal_input(rank, batch, 1000, {rows, 3}));
    return (output - normal_input(rank, batch, 500'000, {rows, 2})).pow(2).mean();
  }

  Rank& rank;
  TwoLayers model{3, 5, 2, cpu_generator(rank.seed(0))};
  Trainer trainer{rank, model, DdpOptions{.bucket_bytes = 1}};
  std::optional<DistributedDataParallel::Join> join;
};

/// Where the variants part: what a rank makes of a step for which not all have a batch. Returns
/// whether the rank takes part in it.
bool train_step(Training& training, std::int64_t step) {
  Rank& rank = training.rank;
  Trainer& trainer = training.trainer;
  const int mine = rank.rank();
  const bool has_batch = step <= batches_of(rank.cell(), mine);
  if (training.join && !has_batch) return true;
  if (rank.is("own-batches")) {
    if (!has_batch) return false;
  } else if (rank.is("barrier-before-leaving")) {
    if (!has_batch) rank.group().barrier();
    if (!has_batch) return false;
  } else if (rank.is("fewest-batches")) {
    if (least_of_ranks(rank.group(), has_batch ? 1 : 0) == 0) return true;
  } else if (rank.is("first-batch-again")) {
    trainer.backward(training.loss_on(mine, has_batch ? step : 1));
    return true;
  } else if (rank.is("zeros-while-any-has")) {
    if (largest_of_ranks(rank.group(), has_batch ? 1 : 0) == 0) return true;
    if (!has_batch) {
      trainer.backward(training.loss_on(mine, 1) * 0);
      return true;
    }
  } else if (rank.is("zeros-divided-by-those-that-have")) {
    at::Tensor present = at::zeros({1}) + (has_batch ? 1 : 0);
    rank.group().all_reduce(present, ReduceOp::sum);
    const double share = rank.world_size() / present.item<double>();
    trainer.backward(training.loss_on(mine, has_batch ? step : 1) * (has_batch ? share : 0));
    return true;
  }
  trainer.backward(training.loss_on(mine, step));
  return true;
}

void compute_reference(Training& training, std::int64_t step) {
  Rank& rank = training.rank;
  const auto has_batch = [&](int owner) { return step <= batches_of(rank.cell(), owner); };
  if (rank.is("reference-of-fewest-batches") && step == rank.cell().steps) return;
  const bool is_repeated = rank.is("reference-of-repeated-batch");
  rank.mean_of_rank_gradients(training.model, [&](int owner) {
    if (has_batch(owner)) return training.loss_on(owner, step);
    return is_repeated ? training.loss_on(owner, 1) : training.loss_on(owner, 1) * 0;
  });
  if (rank.is("reference-of-those-that-have") && step == rank.cell().steps) {
    const double ranks = rank.world_size();
    for (const at::Tensor& parameter : training.model.parameters()) {
      parameter.mutable_grad() *= ranks / (ranks - 1);
    }
  }
  rank.is("reference");
}

void evaluate(Rank& rank, Module& model) {
  at::Tensor score = model.forward(at::zeros({1, 3})).detach().pow(2).mean().reshape({1});
  at::Tensor scores = at::zeros({rank.group().size()});
  rank.group().all_gather(scores, score);
}

void train(Rank& rank) {
  Training training(rank);
  rank.train([&](std::int64_t step) {
    training.model.zero_grad();
    if (rank.cell().role == Role::reference) {
      compute_reference(training, step);
    } else if (!train_step(training, step)) {
      return;
    }
    training.trainer.finish_step(/*steps=*/true, [&] {
      if (training.join && step == rank.cell().steps) training.join->finish();
    });
  });
  if (rank.cell().role == Role::reference) return;
  if (rank.cell().variant == "barrier-before-leaving") rank.group().barrier();
  evaluate(rank, training.model);
}

Expectation expect(const Cell& cell) {
  if (cell.steps == 1) return expect_not_applicable("a rank without any batch has no first one");
  if (!is_faulty(cell)) return {};
  // The step is that of the lowest rank: it stands in the last one, or is behind it.
  const bool has_left = short_rank(cell) == 0 && cell.variant != "barrier-before-leaving";
  const std::int64_t step = has_left ? 0 : cell.steps;
  return expect_ranks_do_not_meet(MismatchFault::operation, step,
                                  odd_ranks(cell, short_rank(cell)));
}

std::vector<Variant> all_variants() {
  using namespace std::chrono_literals;
  return {
      {.name = "own-batches",
       .role = Role::buggy,
       .summary = "each rank trains until its own batches are at an end, then evaluates",
       .limit = 2s},
      {.name = "fewest-batches",
       .role = Role::fixed,
       .summary = "ranks agree before each step that all have a batch: the rest is left out",
       .reference = "reference-of-fewest-batches"},
      {.name = "first-batch-again",
       .role = Role::fixed,
       .summary = "the rank's first batch is its last one too, as samplers pad",
       .reference = "reference-of-repeated-batch"},
      {"zeros-while-any-has", Role::fixed,
       "while anybody has a batch, who has none contributes zeros: divided by all ranks"},
      {.name = "zeros-divided-by-those-that-have",
       .role = Role::fixed,
       .summary = "the same, divided by the ranks that have a batch",
       .reference = "reference-of-those-that-have"},
      {.name = "join",
       .role = Role::fixed,
       .summary =
           "DDP's join: who has no batch shadows the others' reductions with zeros and takes "
           "over their parameters at the end",
       .without = {"wrapper"}},
      {.name = "join-divided-by-those-that-have",
       .role = Role::fixed,
       .summary = "the same with divide_by_initial_world_size=False",
       .reference = "reference-of-those-that-have",
       .without = {"wrapper"}},
      {.name = "barrier-before-leaving",
       .role = Role::wrong_fix,
       .summary = "a barrier for all behind the loop: the others are not there yet",
       .limit = 2s},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: the mean over all ranks; one without a batch counts as zeros",
       .without = {"wrapper"}},
      {.name = "reference-of-fewest-batches",
       .role = Role::reference,
       .summary = "a step that not all have a batch for is left out",
       .without = {"wrapper"}},
      {.name = "reference-of-repeated-batch",
       .role = Role::reference,
       .summary = "the rank that has none trains its first one again",
       .without = {"wrapper"}},
      {.name = "reference-of-those-that-have",
       .role = Role::reference,
       .summary = "the mean over the ranks that have a batch",
       .without = {"wrapper"}},
  };
}

/// A rank that has joined has no gradients: what is claimed of them is no claim about a join.
std::vector<Variant> variants() {
  std::vector<Variant> variants = all_variants();
  for (Variant& variant : variants) {
    if (variant.role == Role::reference || variant.name.starts_with("join")) continue;
    variant.claims = {kGradientsAgree, kGradientsEqual};
  }
  return variants;
}

}  // namespace

Scenario uneven_batches_hang() {
  return {
      .id = "uneven-batches-hang",
      .summary =
          "One rank has a batch less: the others wait for it in a reduction, while it is in "
          "the evaluation behind the loop.",
      .provenance = {.project = "PyMarlin, Lightning, pytorch, snowfall",
                     .link = "PyMarlin#80 (2022-01-10), pytorch-lightning#20404, pytorch#38174, "
                             "snowfall#152",
                     .kept = "2 batches on one rank where the others have 3; DDP's join with both "
                             "of its divisors: all ranks, as is its default, and those that have "
                             "a batch",
                     .left_out = "the data loaders that deal out the batches"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = {{"wrapper", {"ddp", "by-hand"}, "ddp"}, {"short-rank", {"first", "last"}, "last"}},
      .variants = variants(),
      .claims = {kParametersAgree, kParametersEqual, ranks_finish(), collectives_match()},
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
