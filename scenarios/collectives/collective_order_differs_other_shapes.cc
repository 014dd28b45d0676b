// One rank calls a collective that the others do not, because its loss is worth logging. From then
// on its calls pair with the wrong calls of the others. Calls of another size make Gloo abort the
// process; calls of another kind hang.

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kOutlierStep = 2;
constexpr double kRemarkable = 30;  // ordinary losses are around 1, the outlier's above 1000

/// Rank 0's loss is an outlier in step 2.
at::Tensor loss_of(Rank& rank, TwoLayers& model, const MicroBatch& batch) {
  const std::int64_t rows = 2 + batch.owner;
  const bool is_outlier = batch.owner == 0 && batch.step == kOutlierStep;
  const at::Tensor input = normal_input(rank, batch, 1000, {rows, 3});
  const at::Tensor target = normal_input(rank, batch, 500'000, {rows, 2});
  return (model.forward(input) - (is_outlier ? target * 100 + 100 : target)).pow(2).mean();
}

/// Logs the metrics of a remarkable step. The collective differs from that of a gradient.
void gather_metrics(Rank& rank, double loss) {
  ProcessGroup& group = rank.group();
  at::Tensor metrics = at::zeros({3}, group.device()) + loss;
  if (rank.has("metrics", "all-reduce")) {
    group.all_reduce(metrics, ReduceOp::average);
  } else if (rank.has("metrics", "broadcast")) {
    group.broadcast(metrics, 0);
  } else {
    at::Tensor all = at::zeros({3 * group.size()}, metrics.options());
    group.all_gather(all, metrics);
  }
}

void log_before_reduction(Rank& rank, double loss) {
  const bool is_remarkable = loss > kRemarkable;
  bool gathers = rank.is("logged-in-every-step");
  if (rank.is("logged-where-remarkable") || rank.is("barrier-before-log")) gathers = is_remarkable;
  if (rank.is("decided-by-all")) gathers = largest_of_ranks(rank.group(), loss) > kRemarkable;
  if (gathers && rank.is("barrier-before-log")) rank.group().barrier();
  if (gathers) gather_metrics(rank, loss);
}

/// Rank 0 has its layers from the last to the first.
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
  double loss_value = 0;
  Training(rank, model, {.sync = GradientSync::none})
      .run({.loss =
                [&](const MicroBatch& batch) {
                  const at::Tensor loss = loss_of(rank, model, batch);
                  loss_value = loss.item<double>();
                  return loss;
                },
            .reduce =
                [&](std::int64_t) {
                  rank.at_branch();
                  log_before_reduction(rank, loss_value);
                  average_gradients(rank, model);
                  const bool logs = loss_value > kRemarkable && rank.is("logged-behind-gradients");
                  if (logs) gather_metrics(rank, loss_value);
                }});
}

Expectation expect_reversed(const Cell& cell) {
  return expect_sizes_differ(cell, 1, odd_ranks(cell, 0));
}

Expectation expect_missed(const Cell& cell) {
  if (cell.steps <= kOutlierStep) {
    return expect_not_applicable(
        "the outlier comes in step 2 and its damage may come a step later");
  }
  const std::vector<int> culprits = odd_ranks(cell, 0);
  if (is_set(cell, "metrics", "all-reduce") && cell.variant != "barrier-before-log") {
    return expect_sizes_differ(cell, kOutlierStep, culprits);
  }
  return expect_ranks_do_not_meet(MismatchFault::operation, kOutlierStep, culprits);
}

}  // namespace

Scenario collective_order_differs_other_shapes() {
  return {
      .summary =
          "One rank calls an extra collective: its later calls meet calls of another size or kind, "
          "and the training aborts or hangs.",
      .origin = {"Neuron_SP", "Neuron_SP#154",
                 "a collective behind a condition that is true on one rank",
                 "the trainer around it"},
      .variants = {buggy("logged-where-remarkable",
                         "the rank with a remarkable loss gathers metrics, the others do not", "",
                         expect_missed)
                       .hanging(),
                   buggy("reversed-on-one-rank", "rank 0 reduces the gradients in reverse order",
                         "metrics=all-reduce", expect_reversed),
                   fixed("logged-in-every-step", "every rank gathers metrics in every step"),
                   fixed("decided-by-all",
                         "if any rank's loss is remarkable, all ranks gather metrics"),
                   fixed("sorted-by-name", "all ranks reduce their gradients sorted by name",
                         "metrics=all-reduce"),
                   wrong_fix("barrier-before-log",
                             "a barrier before the metrics, which the other ranks never call", "",
                             expect_missed)
                       .hanging(),
                   wrong_fix(
                       "logged-behind-gradients",
                       "metrics are gathered after the gradients: they meet those of the next step",
                       "", expect_missed)
                       .hanging(),
                   reference("reference", "one process: the mean of all ranks' gradients")},
      .worlds = worlds_from(2, 8),  // with more ranks, Gloo hangs instead of aborting
      .axes = {rank_axis("metrics", {"all-reduce", "broadcast", "all-gather"}, "all-reduce")},
      .claims = collective_claims(),
      .body = train,
  };
}

}  // namespace lockstep
