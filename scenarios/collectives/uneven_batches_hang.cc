// One rank has a batch less than the others. They wait for it in the reduction of a gradient while
// it is in the evaluation behind the loop. What a repair has to say is what becomes of the others'
// last batch: left out, trained with the rank's first one again, or with nothing from it, and then
// what the sum is divided by.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "harness/train/ddp.h"
#include "harness/train/gradient_reduction.h"
#include "harness/train/micro_batches.h"
#include "harness/train/optimizer.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"

namespace lockstep {

namespace {

class Mlp : public Module {
 public:
  explicit Mlp(const at::Generator& generator)
      : up_(register_module("up", std::make_shared<Linear>(3, 5, generator))),
        down_(register_module("down", std::make_shared<Linear>(5, 2, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return down_->forward(up_->forward(input).tanh());
  }

 private:
  std::shared_ptr<Linear> up_, down_;
};

/// The rank that has a batch less: one in each step but the last.
int short_rank(const Cell& cell) {
  return is_set(cell, "short-rank", "first") ? 0 : cell.world_size - 1;
}

std::int64_t batches_of(const Cell& cell, int owner) {
  return owner == short_rank(cell) ? cell.steps - 1 : cell.steps;
}

/// The model and what is around it on one rank.
struct Trainer {
  explicit Trainer(Rank& its_rank)
      : rank(its_rank),
        model(cpu_generator(rank.seed(0))),
        optimizer(model.parameters(), /*learning_rate=*/0.05) {
    name_parameters(model);
    if (!is_set(rank.cell(), "wrapper", "ddp")) return;
    ddp.emplace(model, rank.group(), DdpOptions{.bucket_bytes = 1});
  }

  at::Tensor loss_on(int owner, std::int64_t batch_number) {
    const MicroBatch batch{owner, batch_number};
    const std::int64_t rows = 2 + owner;
    const at::Tensor input = normal_input(rank, batch, 1000, {rows, 3});
    const at::Tensor output = ddp ? ddp->forward(input) : model.forward(input);
    return (output - normal_input(rank, batch, 500'000, {rows, 2})).pow(2).mean();
  }

  void backward(const at::Tensor& loss) {
    loss.backward();
    if (!ddp) average_each(rank.group(), model.parameters());
  }

  void finish_step() {
    rank.observe_gradients(Point::reduced, model);
    optimizer.step();
    rank.observe_parameters(Point::stepped, model);
  }

  Rank& rank;
  Mlp model;
  Sgd optimizer;
  std::optional<DistributedDataParallel> ddp;
};

/// Where the variants part: what a rank makes of a step for which not all have a batch. Returns
/// whether the rank takes part in it.
bool train_step(Trainer& trainer, std::int64_t step) {
  Rank& rank = trainer.rank;
  const int mine = rank.rank();
  const bool has_batch = step <= batches_of(rank.cell(), mine);
  if (rank.is("own-batches")) {
    if (!has_batch) return false;
  } else if (rank.is("barrier-before-leaving")) {
    if (!has_batch) rank.group().barrier();
    if (!has_batch) return false;
  } else if (rank.is("fewest-batches")) {
    if (least_of_ranks(rank.group(), has_batch ? 1 : 0) == 0) return true;
  } else if (rank.is("first-batch-again")) {
    trainer.backward(trainer.loss_on(mine, has_batch ? step : 1));
    return true;
  } else if (rank.is("zeros-while-any-has")) {
    if (largest_of_ranks(rank.group(), has_batch ? 1 : 0) == 0) return true;
    if (!has_batch) {
      trainer.backward(trainer.loss_on(mine, 1) * 0);
      return true;
    }
  } else if (rank.is("zeros-divided-by-those-that-have")) {
    at::Tensor present = at::zeros({1}) + (has_batch ? 1 : 0);
    rank.group().all_reduce(present, ReduceOp::sum);
    const double share = rank.world_size() / present.item<double>();
    trainer.backward(trainer.loss_on(mine, has_batch ? step : 1) * (has_batch ? share : 0));
    return true;
  }
  trainer.backward(trainer.loss_on(mine, step));
  return true;
}

void compute_reference(Trainer& trainer, std::int64_t step) {
  Rank& rank = trainer.rank;
  const auto has_batch = [&](int owner) { return step <= batches_of(rank.cell(), owner); };
  if (rank.is("reference-of-fewest-batches") && step == rank.cell().steps) return;
  const bool is_repeated = rank.is("reference-of-repeated-batch");
  rank.mean_of_rank_gradients(trainer.model, [&](int owner) {
    if (has_batch(owner)) return trainer.loss_on(owner, step);
    return is_repeated ? trainer.loss_on(owner, 1) : trainer.loss_on(owner, 1) * 0;
  });
  if (rank.is("reference-of-those-that-have") && step == rank.cell().steps) {
    const double ranks = rank.world_size();
    for (const at::Tensor& parameter : trainer.model.parameters()) {
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
  Trainer trainer(rank);
  rank.train([&](std::int64_t step) {
    trainer.model.zero_grad();
    if (rank.cell().role == Role::reference) {
      compute_reference(trainer, step);
    } else if (!train_step(trainer, step)) {
      return;
    }
    trainer.finish_step();
  });
  if (rank.cell().role == Role::reference) return;
  if (rank.cell().variant == "barrier-before-leaving") rank.group().barrier();
  evaluate(rank, trainer.model);
}

Expectation expect(const Cell& cell) {
  const bool is_wrong = cell.role == Role::buggy || cell.role == Role::wrong_fix;
  if (cell.steps == 1) return expect_not_applicable("a rank without any batch has no first one");
  return is_wrong ? expect_ranks_do_not_meet() : Expectation{};
}

std::vector<Variant> variants() {
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
                     .kept = "2 batches on one rank where the others have 3; both divisors of "
                             "DDP's join, by the number of all ranks as is its standard and by "
                             "those that have a batch",
                     .left_out = "join itself: a rank contributes zeros through its own backward "
                                 "rather than shadowing the reducer's buckets"},
      .worlds = {2, 3, 4},
      .steps = 3,
      .axes = {{"wrapper", {"ddp", "by-hand"}, "ddp"}, {"short-rank", {"first", "last"}, "last"}},
      .variants = variants(),
      .claims = collective_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
