// One gradient of a transformer is made wrong on all ranks, in every dtype. The judge must find it,
// however small the tensor's share of the step's gradient is.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kTensors = 31;  // of the model below
constexpr std::int64_t kBatch = 8;

at::ScalarType dtype_of(const Rank& rank) {
  const std::string& name = rank.text("dtype");
  if (name == "float64") return at::kDouble;
  if (name == "float16") return at::kHalf;
  if (name == "bfloat16") return at::kBFloat16;
  return at::kFloat;
}

at::Tensor loss_of(Rank& rank, Module& model, int owner, std::int64_t step) {
  const TransformerOptions sizes;
  const at::Generator generator =
      cpu_generator(rank.seed(static_cast<std::uint64_t>(1000 + step * 64 + owner)));
  const at::Tensor series = at::randn({kBatch, sizes.length}, generator, at::TensorOptions());
  const at::Tensor classes = at::randint(sizes.classes, {kBatch}, generator, at::kLong);
  return at::cross_entropy_loss(model(rank.input(series.to(dtype_of(rank)))), classes);
}

/// The gradient of another tensor with as many elements; if there is none, its own in reverse.
at::Tensor foreign_gradient(const std::vector<at::Tensor>& parameters, std::size_t mine) {
  const at::Tensor& own = parameters[mine].grad();
  for (std::size_t ahead = 1; ahead < parameters.size(); ++ahead) {
    const at::Tensor& other = parameters[(mine + ahead) % parameters.size()].grad();
    if (other.numel() == own.numel()) return other.reshape(own.sizes()).clone();
  }
  return own.flatten().flip(0).reshape(own.sizes());
}

/// The tensor to make wrong; empty in a healthy cell.
std::optional<std::size_t> wrong_tensor(const Rank& rank) {
  if (rank.is("healthy") || !has_axis(rank.cell(), "tensor")) return std::nullopt;
  return static_cast<std::size_t>(std::stoll(rank.text("tensor")));
}

at::Tensor wrong_gradient(Rank& rank, const std::vector<at::Tensor>& parameters, std::size_t mine) {
  const at::Tensor& right = parameters[mine].grad();
  if (rank.is("zeroed")) return right * 0;
  if (rank.is("halved")) return right / 2;
  if (rank.is("doubled")) return right * 2;
  if (rank.is("foreign")) return foreign_gradient(parameters, mine);
  return right;
}

void reduce(Rank& rank, const std::vector<at::Tensor>& parameters) {
  rank.at_branch();
  const std::optional<std::size_t> wrong = wrong_tensor(rank);
  const bool is_missing = rank.is("one-rank-missing") && rank.rank() == rank.world_size() - 1;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor& gradient = parameters[i].mutable_grad();
    if (is_missing && i == wrong) gradient = gradient * 0;
    rank.group().all_reduce(gradient, ReduceOp::sum);
    gradient = gradient / rank.world_size();
  }
  if (wrong) parameters[*wrong].mutable_grad() = wrong_gradient(rank, parameters, *wrong);
}

void train(Rank& rank) {
  TimeSeriesTransformer model({}, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank));
  const std::vector<at::Tensor> parameters = model.parameters();
  const auto optimizer = make_optimizer(rank.text("optimizer"), parameters, 0.01);
  const bool is_reference = rank.is_reference();
  if (is_reference) rank.at_branch();
  rank.train([&](std::int64_t step) {
    model.zero_grad();
    if (is_reference) {
      rank.mean_of_rank_gradients(model,
                                  [&](int owner) { return loss_of(rank, model, owner, step); });
    } else {
      loss_of(rank, model, rank.rank(), step).backward();
      reduce(rank, parameters);
    }
    rank.observe_gradients(Phase::pre_step, model);
    optimizer->step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

std::vector<std::string> tensor_numbers() {
  std::vector<std::string> numbers;
  for (std::int64_t tensor = 0; tensor < kTensors; ++tensor) {
    numbers.push_back(std::to_string(tensor));
  }
  return numbers;
}

}  // namespace

Scenario gradient_faults() {
  const Claim gradients = equal_reference(Kind::gradient, Phase::pre_step);
  const Claim parameters = equal_reference(Kind::parameter, Phase::post_step);
  const std::vector<std::string> faults{"zeroed", "halved", "doubled", "foreign",
                                        "one-rank-missing"};
  return {
      .summary = "One gradient is wrong on all ranks.",
      .variants = {{"reference", Role::reference, "one process computes every rank's gradient"},
                   {"healthy", Role::fixed, "gradients are averaged one by one"},
                   {"zeroed", Role::buggy, "the tensor's gradient is 0"},
                   {"halved", Role::buggy, "it is half of what it should be"},
                   {"doubled", Role::buggy, "it is twice what it should be"},
                   {"foreign", Role::buggy, "it is another tensor's, or its own back to front"},
                   {"one-rank-missing", Role::buggy, "the last rank contributes nothing to it"}},
      .worlds = {2, 3, 4, 8},
      .steps = 3,
      .axes = {{"dtype", {"float32", "float64", "float16", "bfloat16"}, "float32"},
               {"optimizer", {"sgd", "adamw"}, "sgd"},
               {"tensor", tensor_numbers(), "0", faults}},
      .claims = {gradients, parameters, ranks_finish()},
      .tables = {},
      .expect =
          [gradients, parameters](const Cell& cell) {
            Expectation expectation;
            if (cell.role == Role::buggy) expectation.breaks = {gradients, parameters};
            return expectation;
          },
      .body = train,
  };
}

}  // namespace lockstep
