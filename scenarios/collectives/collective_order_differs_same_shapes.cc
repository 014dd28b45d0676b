// Each rank reduces its gradients one by one in its own order: that of autograd, or that of a set.
// Collectives pair by call order alone, so tensors of the same shape are averaged with each other,
// without an error.

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

/// Two layers of one shape after a third. `left_first` sets the order of computation.
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

/// Names of parameters in the order of their gradients' arrival.
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

/// Python salts string hashes differently in each process, so a set of names has a different order
/// there. Here odd ranks visit the last layer before the one in front of it.
void order_as_a_set(std::vector<NamedTensor>& gradients, int rank) {
  const auto left = gradients.begin() + 2, right = left + 2;
  if (rank % 2 == 1) std::rotate(left, right, gradients.end());
}

/// Sorts the calls.
void order(Rank& rank, std::vector<NamedTensor>& gradients, const Arrivals& arrivals) {
  if (rank.has("order", "of-the-model")) return;
  if (rank.has("order", "of-a-set")) return order_as_a_set(gradients, rank.rank());
  sort_by_arrival(gradients, arrivals);
  if (rank.has("order", "by-size")) {
    std::stable_sort(gradients.begin(), gradients.end(), [](const auto& a, const auto& b) {
      return a.tensor.numel() < b.tensor.numel();
    });
  } else if (rank.has("order", "by-name")) {
    std::sort(gradients.begin(), gradients.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
}

void reduce(Rank& rank, const Module& model, const Arrivals& arrivals) {
  rank.at_branch();
  if (rank.is("flat-buffer")) return average_flat(rank.group(), model.parameters());
  std::vector<NamedTensor> gradients = model.named_parameters();
  order(rank, gradients, arrivals);
  const bool waits = rank.has("calls", "waited-for");
  std::vector<Pending> started;
  for (const NamedTensor& gradient : gradients) {
    if (rank.is("barrier-before-each")) rank.group().barrier();
    started.push_back(
        rank.group().start_all_reduce(gradient.tensor.mutable_grad(), ReduceOp::average));
    if (waits) started.back().wait();
  }
  for (Pending& pending : started) {
    if (!waits) pending.wait();
  }
}

void train(Rank& rank) {
  Branches model(cpu_generator(rank.seed(0)));
  Arrivals arrivals;
  note_arrivals(model, arrivals);
  TrainingOptions options = training_options(rank);
  options.sync = GradientSync::none;
  Training(rank, model, options)
      .run({.loss =
                [&](const MicroBatch& batch) {
                  arrivals.clear();
                  model.left_first = batch.owner == 0;
                  const Regression regression = regression_of_rank(batch.owner, 3, 4);
                  return squared_error(rank, batch, regression, [&](const at::Tensor& input) {
                    return model.forward(input);
                  });
                },
            .reduce = [&](std::int64_t) { reduce(rank, model, arrivals); }});
}

std::vector<Variant> variants() {
  const ExpectationOf swapped =
      always(expect_tensors_swapped(MismatchFault::order, {"left.*", "right.*"}));
  return {
      buggy("arrival-order", "each gradient as soon as autograd has computed it",
            "order=of-arrival", swapped),
      buggy("set-order", "the order of a set of names, which differs between processes",
            "order=of-a-set", swapped),
      fixed("registration-order", "the order of the model's parameters", "order=of-the-model"),
      fixed("sorted-by-name", "sorted by name", "order=by-name"),
      fixed("flat-buffer",
            "one all-reduce of all gradients, in the order of the model's parameters",
            "calls=waited-for"),
      wrong_fix("sorted-by-size",
                "sorted by size: gradients of one size still come in different orders",
                "order=by-size", swapped),
      wrong_fix("barrier-before-each",
                "a barrier before each call: calls still pair by their order", "order=of-arrival",
                swapped),
      reference("reference", "one process: the mean of all ranks' gradients"),
  };
}

}  // namespace

Scenario collective_order_differs_same_shapes() {
  return {
      .summary =
          "Ranks all-reduce gradients of one shape in different orders: different tensors are "
          "averaged together, without an error.",
      .origin = {"DeepSpeed; OpenTSLM",
                 "microsoft/DeepSpeed#2343 (2022-09-22); a risk of OpenTSLM#49",
                 "layers of one shape, computed in another order per rank, reduced as they arrive",
                 "ZeRO's buckets: every gradient is reduced by itself"},
      .variants = variants(),
      .axes = {rank_axis("calls", {"waited-for", "started"}, "waited-for"), accumulation_axis()},
      .claims = collective_claims(),
      .body = train,
  };
}

}  // namespace lockstep
