// A router balances its experts by a bias: after each step, the bias of experts with many tokens
// falls and that of the others rises. The bias has no gradient, so no wrapper reduces it. If each
// rank counts only its own tokens, ranks route by different biases: their gradients are averaged
// and agree, but belong to different assignments of tokens.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <utility>

#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kTokens = 4;  // of a rank

/// Of the routes: 0.1 between the probabilities of the two experts at first.
constexpr double kPreference = 0.1;
/// Usual are 0.001. Far more than the preference, so that a bias decides the next step's routes.
constexpr double kBiasStep = 1;

/// Two experts, of which each token takes one. The bias chooses, and does not weight.
class RoutedExperts : public Module {
 public:
  explicit RoutedExperts(const at::Generator& generator)
      : bias_(register_buffer("expert_bias", at::zeros({2}))),
        router_(register_module("router", std::make_shared<Linear>(kWidth, 2, generator, false))),
        experts_{register_module("expert0", std::make_shared<Linear>(kWidth, kWidth, generator)),
                 register_module("expert1", std::make_shared<Linear>(kWidth, kWidth, generator))} {
    const at::NoGradGuard no_grad;  // it tells tokens by their first value
    router_->weight().zero_();
    router_->weight().select(1, 0).copy_(at::tensor({kPreference, -kPreference}));
  }

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor probabilities = (*router_)(input).softmax(-1);
    const at::Tensor route = (probabilities.detach() + bias_).argmax(-1);
    at::Tensor output;
    for (std::int64_t expert = 0; expert < 2; ++expert) {
      const at::Tensor is_chosen = route == expert;
      counts_[static_cast<std::size_t>(expert)] += is_chosen.sum().item<std::int64_t>();
      const at::Tensor weight = probabilities.select(-1, expert) * is_chosen;
      const at::Tensor part =
          weight.unsqueeze(-1) * (*experts_[static_cast<std::size_t>(expert)])(input);
      output = output.defined() ? output + part : part;
    }
    return output;
  }

  /// The tokens of each expert since the last call.
  at::Tensor take_counts(at::Device device) {
    const auto [first, second] = std::exchange(counts_, {});
    return at::tensor({first, second}, at::kFloat).to(device);
  }

  /// One step against the load of `counts`.
  void balance(const at::Tensor& counts) {
    bias_ += kBiasStep * (counts.mean() - counts).sign().to(bias_.device());
  }

  at::Tensor& bias() { return bias_; }

 private:
  at::Tensor bias_;
  std::shared_ptr<Linear> router_;
  std::array<std::shared_ptr<Linear>, 2> experts_;
  std::array<std::int64_t, 2> counts_{};
};

/// Rank 0 has a token of the second topic among four, all others have only such.
at::Tensor tokens_of(Rank& rank, const MicroBatch& batch) {
  at::Tensor tokens =
      at::randn({kTokens, kWidth}, cpu_generator(rank.seed(batch.seed(1'000'000))), at::kFloat);
  tokens.select(1, 0).fill_(batch.owner == 0 ? 1 : -1);
  tokens[kTokens - 1][0] = -1;
  return rank.input(tokens);
}

/// The new bias, from the tokens of the step.
void update_bias(Rank& rank, RoutedExperts& model) {
  at::Tensor counts = model.take_counts(rank.is_reference() ? at::kCPU : rank.group().device());
  if (rank.has("counts", "summed")) rank.group().all_reduce(counts, ReduceOp::sum);
  if (rank.has("counts", "averaged")) rank.group().all_reduce(counts, ReduceOp::average);
  model.balance(counts);
  if (rank.has("bias", "averaged")) rank.group().all_reduce(model.bias(), ReduceOp::average);
}

void train(Rank& rank) {
  RoutedExperts model(cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run({
      .loss =
          [&](const MicroBatch& batch) {
            const at::Tensor tokens = tokens_of(rank, batch);
            const at::Tensor target = normal_input(rank, batch, 2'000'000, {kTokens, kWidth});
            // DDP broadcasts buffers in its forward, before this one's.
            const at::Tensor output = training.forward([&] {
              const bool is_first = batch.index == 0 && batch.owner == rank.rank();
              if (is_first) rank.observe_buffers(Phase::pre_forward, model);
              return model(tokens);
            });
            return (output - target).pow(2).mean();
          },
      .after =
          [&](std::int64_t) {
            rank.at_branch();
            update_bias(rank, model);
          },
  });
}

/// From step 2 on, biases are wrong. Wrong routes show in the gradients in step `first_gradients`.
Expectation expect_wrong_biases(const Cell& cell, Pin pin, std::int64_t first_gradients) {
  pin.claim = kBuffersEqual;
  pin.steps = {2};
  pin.tensors = {"expert_bias"};
  return pinned({.breaks = {kBuffersEqual, kGradientsEqual, kParametersEqual},
                 .symptom = SymptomKind::agree_but_wrong},
                {pin,
                 {.claim = kGradientsEqual,
                  .steps = {first_gradients},
                  .groups = each_alone(cell),
                  .why = "the experts' gradients are random"}});
}

constexpr Range kOpposite{-1.00001, -0.99999};

/// Rank 0 has most tokens for the first expert, all ranks together for the second.
Expectation expect_own_biases(const Cell& cell) {
  Expectation expectation =
      expect_wrong_biases(cell, {.ratio = about(-1), .cosine = kOpposite, .groups = {{0}}}, 2);
  std::vector<std::vector<int>> groups{{0}, {}};
  for (int rank = 1; rank < cell.world_size; ++rank) groups[1].push_back(rank);
  expectation.breaks.push_back(kBuffersAgree);
  expectation.pins.push_back({.claim = kBuffersAgree, .steps = {2}, .groups = groups});
  expectation.symptom = SymptomKind::ranks_differ;
  return expectation;
}

Expectation expect_bias_of_rank_0(const Cell& cell) {
  return expect_wrong_biases(
      cell, {.ratio = about(-1), .cosine = kOpposite, .groups = each_alone(cell)}, 2);
}

/// Rank 0's step and those of the others, which are its opposite. With two ranks nothing is left,
/// with more of them the bias is too small, but decides the same for a step.
Expectation expect_mean_of_biases(const Cell& cell) {
  const double ranks = cell.world_size;
  return expect_wrong_biases(cell,
                             {.ratio = about((ranks - 2) / ranks), .groups = each_alone(cell)},
                             cell.world_size == 2 ? 2 : 3);
}

std::string precondition(const Cell& cell) {
  return cell.steps >= 3 ? "" : "a bias decides on routes from step 2 on, some only from step 3 on";
}

}  // namespace

Scenario router_bias_from_local_counts() {
  return {
      .summary =
          "Each rank updates its router's bias from the tokens of its own batch: ranks send tokens "
          "to different experts.",
      .origin = {"torchtitan, prime-rl",
                 "pytorch/torchtitan#1114 (2025-04-17), #1506; PrimeIntellect-ai/prime-rl#2953 "
                 "(2026-07-03)",
                 "the bias that chooses and does not weight, its step by the sign of the load; "
                 "the sum of counts over data-parallel ranks that both added",
                 "FSDP, which does not broadcast buffers, either: here gradients are averaged by "
                 "hand; the recentring, which two experts do not need; experts on other ranks"},
      .variants =
          {buggy("own-counts", "each rank counts the tokens of its own batch",
                 "wrapper=by-hand counts=own", expect_own_biases),
           wrong_fix("bias-of-rank-0",
                     "DDP's forward broadcasts rank 0's bias, which saw only rank 0's tokens",
                     "wrapper=ddp counts=own", expect_bias_of_rank_0),
           wrong_fix("biases-averaged",
                     "biases are averaged: a mean of the ranks' decisions, not of their tokens",
                     "wrapper=by-hand counts=own bias=averaged", expect_mean_of_biases),
           fixed("counts-summed", "counts are summed over the ranks before the bias is updated",
                 "wrapper=by-hand counts=summed"),
           fixed("counts-averaged", "their mean has the same signs",
                 "wrapper=by-hand "
                 "counts=averaged"),
           fixed("counts-summed-under-ddp", "all ranks have the bias that DDP broadcasts",
                 "wrapper=ddp counts=summed"),
           reference("reference", "one process: the tokens of all ranks")},
      .steps = 5,
      .axes = {accumulation_axis()},
      .claims = claims_before({kBuffersAgree, kBuffersEqual}, replica_claims()),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
