// Ranks reduce their gradients one by one, each in an order of its own: that in which autograd
// computed them, or that of a set. Collectives pair by the order of the calls alone, so that
// tensors of the same shape are averaged with each other, and nobody complains.

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

/// Two layers of one shape behind a third, in the order that the rank computes them in.
class Branches : public Module {
 public:
  explicit Branches(const at::Generator& generator)
      : trunk_(register_module("trunk", std::make_shared<Linear>(3, 4, generator))),
        left_(register_module("left", std::make_shared<Linear>(4, 4, generator))),
        right_(register_module("right", std::make_shared<Linear>(4, 4, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor hidden = trunk_->forward(input);
    at::Tensor left, right;
    if (left_first) left = left_->forward(hidden);
    right = right_->forward(hidden);
    if (!left_first) left = left_->forward(hidden);
    return left + right.tanh();
  }

  bool left_first = true;

 private:
  std::shared_ptr<Linear> trunk_, left_, right_;
};

/// Names of parameters in the order in which their gradients come.
using Arrivals = std::vector<std::string>;

void note_arrivals(const Module& model, Arrivals& arrivals) {
  for (const NamedTensor& entry : model.named_parameters()) {
    entry.tensor.register_hook(
        [&arrivals, name = entry.name](const at::Tensor&) { arrivals.push_back(name); });
  }
}

void sort_by_arrival(std::vector<NamedTensor>& gradients, const Arrivals& arrivals) {
  const auto arrival_of = [&](const NamedTensor& gradient) {
    return std::find(arrivals.begin(), arrivals.end(), gradient.name);
  };
  std::sort(gradients.begin(), gradients.end(),
            [&](const auto& a, const auto& b) { return arrival_of(a) < arrival_of(b); });
}

/// Python salts the hashes of strings, in each process with another number: a set of names has
/// another order there. Here odd ranks find the last layer before the one in front of it.
void order_as_a_set(std::vector<NamedTensor>& gradients, int rank) {
  const auto left = gradients.begin() + 2, right = left + 2;
  if (rank % 2 == 1) std::rotate(left, right, gradients.end());
}

/// Where the variants part: the order of the calls.
void order(Rank& rank, std::vector<NamedTensor>& gradients, const Arrivals& arrivals) {
  if (rank.is("registration-order")) return;
  if (rank.is("set-order")) return order_as_a_set(gradients, rank.rank());
  sort_by_arrival(gradients, arrivals);
  if (rank.is("arrival-order") || rank.is("barrier-before-each")) return;
  if (rank.is("sorted-by-size")) {
    std::stable_sort(gradients.begin(), gradients.end(), [](const auto& a, const auto& b) {
      return a.tensor.numel() < b.tensor.numel();
    });
  } else if (rank.is("sorted-by-name")) {
    std::sort(gradients.begin(), gradients.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
}

void reduce(Rank& rank, const Module& model, const Arrivals& arrivals) {
  if (rank.is("flat-buffer")) return average_flat(rank.group(), model.parameters());
  std::vector<NamedTensor> gradients = model.named_parameters();
  order(rank, gradients, arrivals);
  std::vector<Pending> started;
  for (const NamedTensor& gradient : gradients) {
    if (rank.cell().variant == "barrier-before-each") rank.group().barrier();
    started.push_back(
        rank.group().start_all_reduce(gradient.tensor.mutable_grad(), ReduceOp::average));
    if (is_set(rank.cell(), "calls", "waited-for")) started.back().wait();
  }
  if (is_set(rank.cell(), "calls", "waited-for")) return;
  for (Pending& pending : started) pending.wait();
}

void train(Rank& rank) {
  Branches model(cpu_generator(rank.seed(0)));
  Arrivals arrivals;
  note_arrivals(model, arrivals);
  rank.is("reference");
  MicroBatchOptions options = micro_batch_options(rank.cell());
  options.wraps = false;
  options.after_backward = [&](const MicroBatch& batch) {
    if (batch.index + 1 == options.accumulation) reduce(rank, model, arrivals);
  };
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto*) {
    arrivals.clear();
    model.left_first = batch.owner == 0;
    const std::int64_t rows = 2 + batch.owner;
    const at::Tensor output = model.forward(normal_input(rank, batch, 1000, {rows, 3}));
    return (output - normal_input(rank, batch, 500'000, {rows, 4})).pow(2).mean();
  });
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  return expect_tensors_swapped(MismatchFault::order, {"left.*", "right.*"});
}

std::vector<Variant> variants() {
  return {
      {"arrival-order", Role::buggy, "each gradient in the order in which autograd computed it"},
      {"set-order", Role::buggy, "in the order of a set of names, another one in each process"},
      {.name = "registration-order",
       .role = Role::fixed,
       .summary = "in the order in which the model lists its parameters"},
      {.name = "sorted-by-name", .role = Role::fixed, .summary = "sorted by name"},
      {.name = "flat-buffer",
       .role = Role::fixed,
       .summary = "one all-reduce of all gradients, in the order of the model",
       .without = {"calls"}},
      {"sorted-by-size", Role::wrong_fix,
       "sorted by size, so that the sizes fit: gradients of one size keep their own order"},
      {"barrier-before-each", Role::wrong_fix,
       "ranks wait for each other before each call: they still pair by order"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: the mean of all ranks' gradients",
       .without = {"calls"}},
  };
}

}  // namespace

Scenario collective_order_differs_same_shapes() {
  return {
      .id = "collective-order-differs-same-shapes",
      .summary =
          "Ranks call the same all-reduces in different orders: gradients of one shape are "
          "averaged with each other, without an error.",
      .provenance = {.project = "DeepSpeed; OpenTSLM",
                     .link = "microsoft/DeepSpeed#2343 (2022-09-22); a risk of OpenTSLM#49",
                     .kept = "two layers of one shape that the ranks compute in different orders; "
                             "gradients that are reduced as they arrive",
                     .left_out = "ZeRO's buckets: every gradient is reduced by itself"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = {{"calls", {"waited-for", "started"}, "waited-for"},
               {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = collective_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
