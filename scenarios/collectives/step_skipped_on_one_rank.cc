// A trainer leaves out steps whose loss is not finite, or far off. Rank 0 sees such a loss and the
// others do not: its next reduction meets their present one, a step behind, until they wait in the
// last one for a rank that has gone on to save the checkpoint.

#include <ATen/TensorOperators.h>

#include <limits>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/loop/trainer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kBadStep = 2;
constexpr double kMostLoss = 100;  // ordinary losses are around 1, a spike's above 10000

/// Rank 0's targets of step 2 are damaged.
at::Tensor target_of(Rank& rank, const MicroBatch& batch, std::int64_t rows) {
  const at::Tensor target = normal_input(rank, batch, 500'000, {rows, 2});
  if (batch.owner != 0 || batch.step != kBadStep) return target;
  if (is_set(rank.cell(), "loss", "spike")) return target * 100 + 1000;
  return target * std::numeric_limits<double>::infinity();
}

bool is_bad(const at::Tensor& loss) { return !(loss.item<double>() < kMostLoss); }

struct Training {
  at::Tensor loss_on(int owner, std::int64_t step) {
    const MicroBatch batch{owner, step};
    const std::int64_t rows = 2 + owner;
    const at::Tensor output = trainer.output(normal_input(rank, batch, 1000, {rows, 3}));
    return (output - target_of(rank, batch, rows)).pow(2).mean();
  }

  Rank& rank;
  TwoLayers model{3, 5, 2, cpu_generator(rank.seed(0))};
  Trainer trainer{rank, model};
};

/// Where the variants part: who leaves out what. Returns whether the optimizer is to step.
bool train_step(Training& training, std::int64_t step) {
  Rank& rank = training.rank;
  const at::Tensor loss = training.loss_on(rank.rank(), step);
  if (rank.is("skipped-locally")) {
    if (is_bad(loss)) return false;
  } else if (rank.is("decided-by-all")) {
    if (largest_of_ranks(rank.group(), is_bad(loss) ? 1 : 0) > 0) return false;
  } else if (rank.is("decided-on-mean-loss")) {
    at::Tensor mean = loss.detach().clone();
    rank.group().all_reduce(mean, ReduceOp::average);
    if (is_bad(mean)) return false;
  } else if (rank.is("zeros-from-that-rank")) {
    training.trainer.backward(is_bad(loss) ? loss_of_nothing(training.model) : loss);
    return true;
  }
  training.trainer.backward(loss);
  return !(rank.is("optimizer-skipped-locally") && is_bad(loss));
}

/// All ranks leave out a step in which any rank's loss is bad.
bool compute_reference(Training& training, std::int64_t step) {
  Rank& rank = training.rank;
  rank.is("reference");
  for (int owner = 0; owner < rank.world_size(); ++owner) {
    if (is_bad(training.loss_on(owner, step))) return false;
  }
  rank.mean_of_rank_gradients(training.model,
                              [&](int owner) { return training.loss_on(owner, step); });
  return true;
}

void train(Rank& rank) {
  Training training{rank};
  const bool is_reference = rank.cell().role == Role::reference;
  rank.train([&](std::int64_t step) {
    training.model.zero_grad();
    training.trainer.finish_step(is_reference ? compute_reference(training, step)
                                              : train_step(training, step));
  });
  if (!is_reference) rank.group().barrier();  // rank 0 saves the checkpoint, the others wait for it
}

/// The reference leaves step 2 out: nobody has gradients there, and whoever has some is wrong.
Expectation expect_trained_step(Expectation expectation, const Cell& cell) {
  return pinned(std::move(expectation), {{.claim = kGradientsEqual,
                                          .steps = {kBadStep},
                                          .last_step = cell.steps,
                                          .groups = each_alone(cell),
                                          .why = "there is nothing that it is a multiple of"}});
}

/// Rank 0 is a step ahead of the others, until they wait for it behind its last one.
Expectation expect_step_ahead(const Cell& cell) {
  Expectation expectation =
      expect_ranks_do_not_meet(MismatchFault::operation, 0, odd_ranks(cell, 0));
  expectation.breaks.insert(expectation.breaks.end(),
                            {kGradientsAgree, kParametersAgree, kGradientsEqual, kParametersEqual});
  const std::string why = "gradients of two steps are in the mean";
  expectation.pins.push_back({.claim = kGradientsAgree, .steps = {kBadStep}, .why = why});
  expectation = expect_trained_step(std::move(expectation), cell);
  expectation.pins.back().last_step = cell.steps - 1;  // the last that all ranks have
  return expectation;
}

Expectation expect_fault(const Cell& cell) {
  if (cell.role == Role::buggy) return expect_step_ahead(cell);
  if (cell.variant == "zeros-from-that-rank") {
    return expect_trained_step(expect_agree_but_wrong(), cell);
  }
  return expect_trained_step({.breaks = {kParametersAgree, kGradientsEqual, kParametersEqual},
                              .symptom = SymptomKind::ranks_differ},
                             cell);
}

Expectation expect(const Cell& cell) {
  if (cell.steps <= kBadStep) {
    return expect_not_applicable(
        "the bad loss is that of step 2, and its damage is seen behind it");
  }
  return is_faulty(cell) ? expect_fault(cell) : Expectation{};
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  return {
      {.name = "skipped-locally",
       .role = Role::buggy,
       .summary = "a rank whose loss is bad goes on to the next step before backward",
       .limit = 2s},
      {"decided-by-all", Role::fixed, "where any rank's loss is bad, all leave the step out"},
      {"decided-on-mean-loss", Role::fixed, "all ranks decide on the mean of their losses"},
      {"optimizer-skipped-locally", Role::wrong_fix,
       "all ranks reduce, and the rank with the bad loss leaves out its optimizer's step alone"},
      {"zeros-from-that-rank", Role::wrong_fix,
       "it contributes zeros, so that nobody waits: the others' step is trained, too small"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: a step in which any rank's loss is bad is left out",
       .without = {"wrapper"}},
  };
}

}  // namespace

Scenario step_skipped_on_one_rank() {
  return {
      .id = "step-skipped-on-one-rank",
      .summary =
          "One rank leaves out a step for its bad loss: its gradients are averaged with the "
          "others' of the step before, and at the end they wait for it.",
      .provenance = {.project = "Neuron_SP, llm-internal-medicine",
                     .link = "Neuron_SP#154 and #197, llm-internal-medicine#45",
                     .kept = "a local condition in front of a collective",
                     .left_out = "the trainers around it, loss scaling"},
      .worlds = worlds_from(2),
      .steps = 4,
      .axes = {{"wrapper", {"ddp", "by-hand"}, "ddp"},
               {"loss", {"spike", "not-finite"}, "not-finite"}},
      .variants = variants(),
      .claims = collective_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
