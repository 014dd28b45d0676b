// A rank calls a collective that the others do not call, because something is true on it alone: its
// loss is worth a line in the log. From there on its calls meet others: of another size, which Gloo
// answers by ending the process, or of another kind, which never come.

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/loop/trainer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kOutlierStep = 2;
constexpr double kRemarkable = 30;  // ordinary losses are around 1, the outlier's above 1000

/// Rank 0 meets an outlier in step 2.
at::Tensor loss_of(Rank& rank, TwoLayers& model, const MicroBatch& batch) {
  const std::int64_t rows = 2 + batch.owner;
  const bool is_outlier = batch.owner == 0 && batch.step == kOutlierStep;
  const at::Tensor input = normal_input(rank, batch, 1000, {rows, 3});
  const at::Tensor target = normal_input(rank, batch, 500'000, {rows, 2});
  return (model.forward(input) - (is_outlier ? target * 100 + 100 : target)).pow(2).mean();
}

/// What the trainer logs of a remarkable step: another collective than that of a gradient.
void gather_metrics(Rank& rank, double loss) {
  ProcessGroup& group = rank.group();
  at::Tensor metrics = at::zeros({3}) + loss;
  if (!has_axis(rank.cell(), "metrics") || is_set(rank.cell(), "metrics", "all-reduce")) {
    group.all_reduce(metrics, ReduceOp::average);
  } else if (is_set(rank.cell(), "metrics", "broadcast")) {
    group.broadcast(metrics, 0);
  } else {
    at::Tensor all = at::zeros({3 * group.size()});
    group.all_gather(all, metrics);
  }
}

/// Where the variants part: who logs, and when.
void log_before_reduction(Rank& rank, double loss) {
  const bool is_remarkable = loss > kRemarkable;
  if (rank.is("logged-where-remarkable")) {
    if (is_remarkable) gather_metrics(rank, loss);
  } else if (rank.is("barrier-before-log")) {
    if (!is_remarkable) return;
    rank.group().barrier();
    gather_metrics(rank, loss);
  } else if (rank.is("logged-in-every-step")) {
    gather_metrics(rank, loss);
  } else if (rank.is("decided-by-all")) {
    if (largest_of_ranks(rank.group(), loss) > kRemarkable) gather_metrics(rank, loss);
  }
}

void log_after_reduction(Rank& rank, double loss) {
  if (loss > kRemarkable && rank.is("logged-behind-gradients")) gather_metrics(rank, loss);
}

/// Rank 0 was given the layers from the last to the first.
void average_gradients(Rank& rank, const Module& model) {
  std::vector<NamedTensor> gradients = model.named_parameters();
  if (rank.is("reversed-on-one-rank") || rank.is("sorted-by-name")) {
    if (rank.rank() == 0) std::reverse(gradients.begin(), gradients.end());
  }
  if (rank.is("sorted-by-name")) {
    std::sort(gradients.begin(), gradients.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  for (const NamedTensor& gradient : gradients) {
    rank.group().all_reduce(gradient.tensor.mutable_grad(), ReduceOp::average);
  }
}

void train(Rank& rank) {
  TwoLayers model(3, 8, 2, cpu_generator(rank.seed(0)));
  rank.is("reference");
  double loss_value = 0;
  MicroBatchOptions options;
  options.wraps = false;
  options.after_backward = [&](const MicroBatch&) {
    log_before_reduction(rank, loss_value);
    average_gradients(rank, model);
    log_after_reduction(rank, loss_value);
  };
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto*) {
    const at::Tensor loss = loss_of(rank, model, batch);
    loss_value = loss.item<double>();
    return loss;
  });
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  const std::vector<int> culprits = odd_ranks(cell, 0);
  if (cell.variant == "reversed-on-one-rank") return expect_sizes_differ(cell, 1, culprits);
  if (cell.steps <= kOutlierStep) {
    return expect_not_applicable(
        "the outlier comes in step 2 and its damage may come a step later");
  }
  const bool meets_a_gradient = !has_axis(cell, "metrics") || is_set(cell, "metrics", "all-reduce");
  if (meets_a_gradient && cell.variant != "barrier-before-log") {
    return expect_sizes_differ(cell, kOutlierStep, culprits);
  }
  return expect_ranks_do_not_meet(MismatchFault::operation, kOutlierStep, culprits);
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  return {
      {.name = "logged-where-remarkable",
       .role = Role::buggy,
       .summary = "a rank whose loss is remarkable gathers metrics, which the others do not",
       .limit = 2s},
      {.name = "reversed-on-one-rank",
       .role = Role::buggy,
       .summary = "rank 0 reduces the gradients from the last to the first",
       .without = {"metrics"}},
      {"logged-in-every-step", Role::fixed, "every rank gathers metrics in every step"},
      {"decided-by-all", Role::fixed, "where any rank's loss is remarkable, all gather metrics"},
      {.name = "sorted-by-name",
       .role = Role::fixed,
       .summary = "all ranks reduce their gradients sorted by name",
       .without = {"metrics"}},
      {.name = "barrier-before-log",
       .role = Role::wrong_fix,
       .summary = "a barrier in front, to which the others do not come either",
       .limit = 2s},
      {.name = "logged-behind-gradients",
       .role = Role::wrong_fix,
       .summary = "metrics are gathered behind the gradients: they meet those of the next step",
       .limit = 2s},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: the mean of all ranks' gradients",
       .without = {"metrics"}},
  };
}

}  // namespace

Scenario collective_order_differs_other_shapes() {
  return {
      .id = "collective-order-differs-other-shapes",
      .summary =
          "One rank calls a collective that the others do not call: its next ones meet "
          "others' of another size or kind, and the training aborts or hangs.",
      .provenance = {.project = "Neuron_SP",
                     .link = "Neuron_SP#154",
                     .kept = "a collective behind a condition that is true on one rank",
                     .left_out = "the trainer around it"},
      .worlds = worlds_from(2, 8),  // among more, Gloo waits where it would notice
      .steps = 3,
      .axes = {{"metrics", {"all-reduce", "broadcast", "all-gather"}, "all-reduce"}},
      .variants = variants(),
      .claims = collective_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
