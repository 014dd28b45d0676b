// Each rank reduces only the gradients it has. The data decide which gradients a backward leaves
// undefined. So ranks all-reduce different tensors of one shape, tensors of different sizes, or a
// different number of tensors.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

/// A layer that all ranks use, and a branch after it. Rank 0's data take `left`. The others' data
/// take `right`, or skip it if there is none.
class Branches : public Module {
 public:
  Branches(const std::string& differs, const at::Generator& generator)
      : width_(differs == "other-sizes" ? 8 : 4),
        trunk_(register_module("trunk", std::make_shared<Linear>(3, 4, generator))),
        left_(register_module("left", std::make_shared<Linear>(4, 4, generator))) {
    if (differs == "other-counts") return;
    right_ = register_module("right", std::make_shared<Linear>(4, width_, generator));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor hidden = trunk_->forward(input);
    if (owner == 0) return left_->forward(hidden);
    if (!right_) return hidden;
    return right_->forward(hidden).reshape({-1, 4, width_ / 4}).sum(2);
  }

  int owner = 0;  ///< the rank whose data are computed

 private:
  std::int64_t width_;
  std::shared_ptr<Linear> trunk_, left_, right_;
};

using Parameters = std::vector<at::Tensor>;

/// One number per parameter: 1 if the rank has its gradient, else 0.
at::Tensor presence_of(const Parameters& parameters) {
  at::Tensor presence =
      at::zeros({static_cast<std::int64_t>(parameters.size())}, parameters.front().options());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].grad().defined()) presence[static_cast<std::int64_t>(i)] = 1;
  }
  return presence;
}

/// The parameters with a nonzero number in `presence`. Fills missing gradients with zeros.
Parameters present(const Parameters& parameters, const at::Tensor& presence) {
  Parameters chosen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (presence[static_cast<std::int64_t>(i)].item<float>() > 0) chosen.push_back(parameters[i]);
  }
  fill_gradients(chosen);
  return chosen;
}

/// Chooses the gradients to reduce, and reduces them.
void reduce(Rank& rank, const Parameters& parameters) {
  rank.at_branch();
  if (rank.is("ddp-finds-unused")) return;
  ProcessGroup& group = rank.group();
  at::Tensor presence = presence_of(parameters);
  if (rank.is("skipped-where-none")) return average_each(group, present(parameters, presence));
  if (rank.is("zero-filled")) fill_gradients(parameters);
  if (rank.is("zero-filled")) return average_each(group, parameters);
  if (rank.is("had-by-any")) group.all_reduce(presence, ReduceOp::maximum);
  if (rank.is("had-by-rank-0")) group.broadcast(presence, 0);
  if (rank.is("divided-by-those-that-have")) group.all_reduce(presence, ReduceOp::sum);
  average_each(group, present(parameters, presence));
  if (!rank.is("divided-by-those-that-have")) return;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor had_by = presence[static_cast<std::int64_t>(i)];
    parameters[i].mutable_grad() *= group.size() / had_by;
  }
}

/// The trainer logs every rank's loss.
void gather_losses(Rank& rank, at::Tensor loss) {
  at::Tensor losses = at::zeros({rank.group().size()}, loss.options());
  rank.group().all_gather(losses, loss);
}

void train(Rank& rank) {
  Branches model(rank.text("differs"), cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.sync = rank.is("ddp-finds-unused") ? GradientSync::ddp : GradientSync::none;
  options.ddp.find_unused_parameters = true;
  Training training(rank, model, options);
  at::Tensor last_loss;
  training.run({.loss =
                    [&](const MicroBatch& batch) {
                      model.owner = batch.owner;
                      const at::Tensor loss = squared_error(
                          rank, batch, regression_of_rank(batch.owner, 3, 4),
                          [&](const at::Tensor& input) { return training.forward(input); });
                      last_loss = loss.detach().reshape({1});
                      return loss;
                    },
                .reduce =
                    [&](std::int64_t) {
                      reduce(rank, model.parameters());
                      gather_losses(rank, last_loss);
                    }});
}

/// A gradient that only k of W ranks have is divided by k instead of W: `left` is W times too
/// large, `right` W / (W - 1) times.
Expectation expect_divided_by_less(const Cell& cell) {
  Expectation expectation = expect_multiple(cell, cell.world_size);
  expectation.pins.front().tensors = {"left.*", "right.*"};
  return expectation;
}

/// Without `right`, the other ranks have no gradient that rank 0 lacks.
Expectation expect_own_branch(const Cell& cell) {
  if (is_set(cell, "differs", "other-counts")) return expect_hidden();
  Pin pin{.claim = kGradientsAgree,
          .steps = {1},
          .last_step = cell.steps,
          .tensors = {"right.*"},
          .groups = each_alone(cell),
          .why = "rank 0 has no gradient there, the others have their own"};
  Expectation expectation = pinned(expect_ranks_differ(), {pin});
  pin.claim = kGradientsEqual;
  return pinned(expectation, {pin});
}

Expectation expect_skipped(const Cell& cell) {
  const std::vector<int> culprits = odd_ranks(cell, 0);
  if (is_set(cell, "differs", "same-shapes")) {
    return expect_tensors_swapped(MismatchFault::tensors, {"left.*", "right.*"});
  }
  if (is_set(cell, "differs", "other-sizes")) return expect_sizes_differ(cell, 1, culprits);
  return expect_ranks_do_not_meet(MismatchFault::operation, 1, culprits);
}

}  // namespace

Scenario none_gradient_skipped_on_some_ranks() {
  return {
      .summary =
          "Each rank reduces only the gradients that its backward defined: different tensors are "
          "averaged together, or the training aborts or hangs.",
      .origin =
          {"DeepSpeed, horovod", "microsoft/DeepSpeed#291 (2020-07-15), horovod#597",
           "gradients that are None on some ranks; zeros instead; the review's divisor question",
           "buckets of many gradients, half precision"},
      .variants =
          {buggy("skipped-where-none", "each rank reduces only the gradients that it has", "",
                 expect_skipped)
               .hanging(),
           fixed("zero-filled", "the pull request: missing gradients become zeros"),
           fixed("had-by-any",
                 "ranks agree on the gradients that any of them has; missing ones become zeros"),
           fixed("ddp-finds-unused",
                 "DDP with find_unused_parameters zeroes the missing gradients"),
           wrong_fix("had-by-rank-0",
                     "all ranks reduce the gradients that rank 0 has; other gradients stay local",
                     "", expect_own_branch),
           wrong_fix("divided-by-those-that-have",
                     "the review's question: the sum is divided by the ranks that had a gradient",
                     "", expect_divided_by_less),
           reference("reference",
                     "one process: the mean of all ranks' gradients; missing ones count as zeros")},
      .axes = {{"differs", {"same-shapes", "other-sizes", "other-counts"}, "same-shapes"},
               accumulation_axis()},
      .claims = collective_claims(),
      .body = train,
  };
}

}  // namespace lockstep
