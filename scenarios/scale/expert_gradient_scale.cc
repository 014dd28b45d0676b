// Expert parallelism: each rank holds some experts, and tokens travel to them and back. Backward
// brings an expert the gradients of all ranks' tokens, so it is a sum over the expert-parallel
// group before anything is reduced. Averaging over the ranks that hold the same expert then divides
// by too few: experts learn faster than the rest of the model, by a factor that AdamW hides.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include "harness/train/autograd/collectives.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/sharded/model_parts.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kTokens = 2;  // of each rank for each expert

/// Ranks that share the experts, one each: two, and all of an odd number.
int experts_of(int world_size) { return world_size % 2 == 0 ? 2 : world_size; }

/// A token's place decides its expert.
struct ExpertModel : Module {
  ExpertModel(int count, const at::Generator& generator)
      : below(register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator))),
        above(register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator))) {
    for (int expert = 0; expert < count; ++expert) {
      experts.push_back(register_module(fmt::format("expert{}", expert),
                                        std::make_shared<Linear>(kWidth, kWidth, generator)));
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    const at::Tensor hidden = (*below)(input);
    std::vector<at::Tensor> parts;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const auto first = static_cast<std::int64_t>(i) * kTokens;
      parts.push_back((*experts[i])(hidden.narrow(0, first, kTokens)));
    }
    return (*above)(hidden + at::cat(parts).tanh());
  }

  /// The same with the expert `own` on this rank of `group`.
  at::Tensor forward_across(ProcessGroup& group, Module& own, const at::Tensor& input) const {
    const at::Tensor hidden = (*below)(input);
    const at::Tensor returned =
        exchanged_between_ranks(group, own(exchanged_between_ranks(group, hidden)));
    return (*above)(hidden + returned.tanh());
  }

  std::shared_ptr<Linear> below, above;
  std::vector<std::shared_ptr<Linear>> experts;
};

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, const Module::Forward& forward) {
  const std::int64_t tokens = kTokens * experts_of(rank.world_size());
  return squared_error(rank, batch, forward, {tokens}, kWidth, kWidth);
}

/// The ranks of each kind of group that this rank is in.
struct Mesh {
  explicit Mesh(Rank& rank) {
    const int experts = experts_of(rank.world_size());
    const int expert = rank.rank() % experts;
    const int replica = rank.rank() / experts;
    std::vector<int> sharing, holding;
    for (int i = 0; i < experts; ++i) sharing.push_back(replica * experts + i);
    for (int i = expert; i < rank.world_size(); i += experts) holding.push_back(i);
    expert_parallel = rank.group().subgroup(fmt::format("ep {}", replica), sharing);
    expert_data = rank.group().subgroup(fmt::format("edp {}", expert), holding);
  }

  std::unique_ptr<ProcessGroup> expert_parallel;  ///< each with another expert
  std::unique_ptr<ProcessGroup> expert_data;      ///< all with this rank's expert
};

/// What the sum over all ranks' tokens is divided by.
int divisor_of(Rank& rank, const Mesh& mesh) {
  if (rank.has("divisor", "holders")) return mesh.expert_data->size();
  if (rank.has("divisor", "both")) return mesh.expert_data->size() * rank.world_size();
  return rank.world_size();
}

void reduce_gradients(Rank& rank, const ExpertModel& model, const Module& own, const Mesh& mesh) {
  for (const auto& dense : {model.below, model.above}) {
    average_each(rank.group(), dense->parameters());
  }
  sum_each(*mesh.expert_data, own.parameters());
  rank.at_branch();
  const int divisor = divisor_of(rank, mesh);
  for (const at::Tensor& parameter : own.parameters()) parameter.mutable_grad() /= divisor;
}

void train(Rank& rank) {
  ExpertModel model(experts_of(rank.world_size()), cpu_generator(rank.seed(0)));
  model.to(rank.device());
  if (rank.is_reference()) {
    return Training(rank, model).run({.loss = [&](const MicroBatch& batch) {
      return loss_of(rank, batch, [&](const at::Tensor& input) { return model(input); });
    }});
  }
  const Mesh mesh(rank);
  Module& own = *model.experts.at(static_cast<std::size_t>(mesh.expert_parallel->rank()));
  ModelParts parts(model, {&own}, {model.below.get(), model.above.get()});
  Training training(rank, model, {}, &parts);
  name_parameters(model);
  const auto forward = [&](const at::Tensor& input) {
    return model.forward_across(*mesh.expert_parallel, own, input);
  };
  training.run({.loss =
                    [&](const MicroBatch& batch) {
                      at::Tensor loss = loss_of(rank, batch, forward);
                      if (!rank.has("loss", "divided")) return loss;
                      return loss / mesh.expert_parallel->size();
                    },
                .reduce = [&](std::int64_t) { reduce_gradients(rank, model, own, mesh); }});
}

Expectation expect_experts_times_group(const Cell& cell) {
  return expect_multiple_of(cell, {"expert*"}, experts_of(cell.world_size));
}

Expectation expect_dense_divided(const Cell& cell) {
  return expect_multiple_of(cell, {"below.*", "above.*"}, 1.0 / experts_of(cell.world_size));
}

/// With one rank for each expert, the second division is by 1.
Expectation expect_divided_twice(const Cell& cell) {
  const int holders = cell.world_size / experts_of(cell.world_size);
  if (holders == 1) return expect_hidden();
  return expect_multiple_of(cell, {"expert*"}, 1.0 / holders);
}

}  // namespace

Scenario expert_gradient_scale() {
  return {
      .summary =
          "Gradients of experts are divided by the ranks that hold the expert, not by those whose "
          "tokens it saw: they are too large by the size of the expert-parallel group.",
      .origin =
          {"DeepSpeed, Megatron-LM, megablocks",
           "deepspeedai/DeepSpeed#5618 (2024-06-05), #5259, #6546; NVIDIA/Megatron-LM#5956 "
           "(2026-07-22); databricks/megablocks#86, #20; pytorch/pytorch#160285 (2025-08-10)",
           "tokens exchanged by all-to-all, one expert on each rank, replicas of experts from 4 "
           "ranks on; the repair, to divide by all data-parallel ranks",
           "routers: here a token's place decides; engines, and AdamW, whose steps hardly depend "
           "on the factor"},
      .variants = {buggy("divided-by-holders",
                         "the sum is divided by the ranks that hold the expert", "divisor=holders",
                         expect_experts_times_group),
                   wrong_fix("loss-divided",
                             "the loss is divided by the group's size: experts are right, and all "
                             "else is too small",
                             "divisor=holders loss=divided", expect_dense_divided),
                   wrong_fix("divided-by-both",
                             "averaged over the holders, then divided by all ranks", "divisor=both",
                             expect_divided_twice),
                   fixed("divided-by-all-ranks", "the sum is divided by all data-parallel ranks",
                         "divisor=all"),
                   reference("reference", "one process: the mean of all ranks' gradients")},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
