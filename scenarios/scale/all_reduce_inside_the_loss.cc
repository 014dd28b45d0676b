// A loss that needs a statistic of the whole batch all-reduces it. The plain collective is not part
// of autograd's graph: the loss is right on every rank, but backward takes the other ranks' part
// for a constant. DDP's average then divides what is only a share already.

#include <ATen/TensorOperators.h>

#include "harness/train/autograd/collectives.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;
constexpr std::int64_t kRows = 4;  // on every rank, so the mean over ranks is that over rows

/// `features` learns by a statistic of the whole batch alone, `head` by an ordinary loss alone.
struct TwoTasks : Module {
  explicit TwoTasks(const at::Generator& generator)
      : features(
            register_module("features", std::make_shared<Linear>(kInputs, kOutputs, generator))),
        head(register_module("head", std::make_shared<Linear>(kInputs, kOutputs, generator))) {}

  at::Tensor forward(const at::Tensor& input) override { return (*head)(input); }

  std::shared_ptr<Linear> features, head;
};

at::Tensor input_of(Rank& rank, const MicroBatch& batch) {
  return normal_input(rank, batch, 1'000'000, {kRows, kInputs});
}

at::Tensor head_loss(Rank& rank, const MicroBatch& batch, const at::Tensor& output) {
  return (output - normal_input(rank, batch, 2'000'000, {kRows, kOutputs})).pow(2).mean();
}

/// How far the features' mean and mean square are from those that they should have.
at::Tensor moment_loss(const at::Tensor& mean, const at::Tensor& mean_square) {
  return mean.pow(2).sum() + (mean_square - 1).pow(2).sum();
}

/// The mean over ranks of what each has.
at::Tensor mean_of_ranks(Rank& rank, const at::Tensor& own) {
  rank.at_branch();
  if (rank.has("statistic", "own")) return own;
  if (rank.has("all_reduce", "differentiable")) {
    return summed_over_ranks(rank.group(), own) / rank.world_size();
  }
  at::Tensor mean = own / rank.world_size();
  at::Tensor value = mean.detach();  // shares the storage
  rank.group().all_reduce(value, ReduceOp::sum);
  return mean;
}

at::Tensor loss_of_rank(Rank& rank, const MicroBatch& batch, TwoTasks& model, Training& training) {
  const at::Tensor input = input_of(rank, batch);
  const std::vector<at::Tensor> outputs = training.forward([&] {
    return std::vector{(*model.features)(input), (*model.head)(input)};
  });
  const at::Tensor moments = moment_loss(mean_of_ranks(rank, outputs[0].mean(0)),
                                         mean_of_ranks(rank, outputs[0].pow(2).mean(0)));
  const at::Tensor head = head_loss(rank, batch, outputs[1]);
  if (rank.has("multiplied", "moments")) return moments * rank.world_size() + head;
  if (rank.has("multiplied", "loss")) return (moments + head) * rank.world_size();
  return moments + head;
}

/// One process: the statistic of all rows, and the mean of the ranks' losses of the head.
void loss_of_all(Rank& rank, TwoTasks& model, std::int64_t step) {
  at::Tensor mean, mean_square, head;
  for (int owner = 0; owner < rank.world_size(); ++owner) {
    const at::Tensor input = input_of(rank, {owner, step});
    const at::Tensor features = (*model.features)(input);
    const at::Tensor own_head = head_loss(rank, {owner, step}, (*model.head)(input));
    mean = owner == 0 ? features.mean(0) : mean + features.mean(0);
    mean_square = owner == 0 ? features.pow(2).mean(0) : mean_square + features.pow(2).mean(0);
    head = owner == 0 ? own_head : head + own_head;
  }
  const int ranks = rank.world_size();
  (moment_loss(mean / ranks, mean_square / ranks) + head / ranks).backward();
}

void train(Rank& rank) {
  TwoTasks model(cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run(
      {.loss = [&](const MicroBatch& batch) { return loss_of_rank(rank, batch, model, training); },
       .reference = [&](std::int64_t step) { loss_of_all(rank, model, step); }});
}

Expectation expect_share(const Cell& cell) {
  return expect_multiple_of(cell, {"features.*"}, 1.0 / cell.world_size);
}

Expectation expect_head_multiplied(const Cell& cell) {
  return expect_multiple_of(cell, {"head.*"}, cell.world_size);
}

Expectation expect_own_statistics(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {"features.*"});
  expectation.pins.front().why = "each rank's statistic is random";
  return expectation;
}

}  // namespace

Scenario all_reduce_inside_the_loss() {
  return {
      .summary =
          "The loss all-reduces a statistic by a plain collective, which autograd does not see: "
          "its value is right, and its gradient 1 / ranks of the right one.",
      .origin =
          {"lightly",
           "lightly-ai/lightly#1920 (2026-04-29), #1977 (2026-07-09), pull request #1980",
           "a statistic of the batch over ranks, beside a loss that has none; the repair by a "
           "collective whose backward is one",
           "SIGReg's characteristic function and Barlow Twins' correlations: here two moments; "
           "AdamW, which hides a "
           "factor in the weights"},
      .variants = {buggy("plain-all-reduce", "the statistic is all-reduced in place",
                         "statistic=of-all all_reduce=plain", expect_share),
                   wrong_fix("own-statistic", "each rank takes the statistic of its own rows",
                             "statistic=own", expect_own_statistics),
                   wrong_fix("loss-times-ranks",
                             "the whole loss is multiplied by the ranks: now the head is wrong",
                             "statistic=of-all all_reduce=plain multiplied=loss",
                             expect_head_multiplied),
                   fixed("differentiable-all-reduce",
                         "the collective's backward sums gradients over ranks",
                         "statistic=of-all all_reduce=differentiable"),
                   fixed("term-times-ranks", "only the statistic's term is multiplied by the ranks",
                         "statistic=of-all all_reduce=plain multiplied=moments"),
                   reference("reference", "one process: the statistic of all rows")},
      .axes = {switch_axis("bucket_view", false)},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
