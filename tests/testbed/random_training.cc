// Healthy trainings, drawn from the seed. The judge must report nothing, for any model, optimizer
// and dtype. `unstable` amplifies roundings until they are as large as the gradients: there the
// result must be undecided.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/nn/lora.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

enum class Activation { tanh, relu, gelu, silu, none };
enum class Reduction { each, flat, ddp };

/// One training; every field is random, except those of an unstable one.
struct Recipe {
  std::int64_t depth = 1;
  std::int64_t width = 4;
  std::int64_t batch = 4;
  Activation activation = Activation::tanh;
  Reduction reduction = Reduction::each;
  std::string optimizer = "sgd";
  at::ScalarType dtype = at::kFloat;
  double learning_rate = 0.01;
  double gain = 1;  ///< of the weights, relative to Linear's initialisation
  bool has_tokens = false;
  bool has_norms = false;
  bool has_adapters = false;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(cpu_generator(seed)) {}

  std::int64_t below(std::int64_t count) {
    return at::randint(count, {1}, generator_, at::kLong).item<std::int64_t>();
  }
  template <class T>
  T of(const std::vector<T>& values) {
    return values.at(static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size()))));
  }

 private:
  at::Generator generator_;
};

Recipe drawn_recipe(std::uint64_t seed) {
  Draw draw(seed);
  Recipe recipe;
  recipe.depth = 1 + draw.below(6);
  recipe.width = draw.of<std::int64_t>({2, 4, 8, 16, 32, 64});
  recipe.batch = draw.of<std::int64_t>({1, 2, 4, 8, 16});
  recipe.activation = draw.of<Activation>(
      {Activation::tanh, Activation::relu, Activation::gelu, Activation::silu, Activation::none});
  recipe.reduction = draw.of<Reduction>({Reduction::each, Reduction::flat, Reduction::ddp});
  recipe.optimizer = draw.of<std::string>({"sgd", "adamw"});
  recipe.dtype = draw.of<at::ScalarType>({at::kFloat, at::kDouble, at::kHalf, at::kBFloat16});
  // AdamW's eps is 0 in float16, so it divides by underflowed values, which breaks every reference.
  if (recipe.dtype == at::kHalf) recipe.optimizer = "sgd";
  recipe.learning_rate = std::pow(10.0, -1.0 - 0.5 * static_cast<double>(draw.below(6)));
  recipe.has_tokens = draw.below(3) == 0;
  recipe.has_norms = draw.below(2) == 0;
  recipe.has_adapters = draw.below(4) == 0;
  return recipe;
}

Recipe unstable_recipe() {
  Recipe recipe;
  recipe.depth = 32;
  recipe.width = 16;
  recipe.learning_rate = 5;
  recipe.gain = 6;
  return recipe;
}

Recipe recipe_of(const Cell& cell) {
  return cell.variant.starts_with("unstable") ? unstable_recipe() : drawn_recipe(cell.seed);
}

at::Tensor activated(Activation activation, const at::Tensor& input) {
  switch (activation) {
    case Activation::tanh:
      return at::tanh(input);
    case Activation::relu:
      return at::relu(input);
    case Activation::gelu:
      return at::gelu(input);
    case Activation::silu:
      return at::silu(input);
    case Activation::none:
      break;
  }
  return input;
}

constexpr std::int64_t kVocabulary = 16;

/// A stack of linear layers for tokens, after an embedding.
class Stack : public Module {
 public:
  Stack(const Recipe& recipe, const at::Generator& generator) : recipe_(recipe) {
    if (recipe.has_tokens) {
      table_ = register_parameter(
          "table", at::randn({kVocabulary, recipe.width}, generator, at::TensorOptions()));
    }
    for (std::int64_t i = 0; i < recipe.depth; ++i) add_layer(i, generator);
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor hidden = recipe_.has_tokens ? at::embedding(table_, input) : input;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (recipe_.has_norms) hidden = (*norms_[i])(hidden);
      hidden = activated(recipe_.activation, (*layers_[i])(hidden));
    }
    return hidden;
  }

 private:
  void add_layer(std::int64_t i, const at::Generator& generator) {
    const std::string number = std::to_string(i);
    if (recipe_.has_norms) {
      norms_.push_back(
          register_module("norm" + number, std::make_shared<LayerNorm>(recipe_.width)));
    }
    std::shared_ptr<Module> layer =
        std::make_shared<Linear>(recipe_.width, recipe_.width, generator);
    for (const NamedTensor& own : layer->own_parameters()) {
      own.tensor.variable_data().mul_(recipe_.gain);
    }
    if (recipe_.has_adapters) {
      layer = std::make_shared<LoraLinear>(layer, LoraOptions{.rank = 2, .draws_b = i % 2 == 0},
                                           generator);
    }
    layers_.push_back(register_module("layer" + number, layer));
  }

  Recipe recipe_;
  at::Tensor table_;
  std::vector<std::shared_ptr<Module>> norms_, layers_;
};

using Forward = std::function<at::Tensor(const at::Tensor& input)>;

at::Tensor loss_of(Rank& rank, const Recipe& recipe, int owner, std::int64_t step,
                   const Forward& forward) {
  const at::Generator generator =
      cpu_generator(rank.seed(static_cast<std::uint64_t>(1'000'000 + step * 64 + owner)));
  if (recipe.has_tokens) {
    const auto tokens = at::randint(kVocabulary, {2, recipe.batch}, generator, at::kLong);
    return at::cross_entropy_loss(forward(rank.input(tokens[0])), tokens[1] % recipe.width);
  }
  const auto numbers =
      at::randn({2, recipe.batch, recipe.width}, generator, at::TensorOptions()).to(recipe.dtype);
  return (forward(rank.input(numbers[0])) - rank.input(numbers[1])).pow(2).mean();
}

void reduce(Rank& rank, Reduction reduction, const Module& model) {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  if (reduction == Reduction::each) average_each(rank.group(), trained);
  if (reduction == Reduction::flat) average_flat(rank.group(), trained);
}

void train(Rank& rank) {
  const Recipe recipe = recipe_of(rank.cell());
  Stack model(recipe, cpu_generator(rank.seed(0)));
  model.to(recipe.dtype);
  const auto optimizer = make_optimizer(recipe.optimizer, model.parameters(), recipe.learning_rate);
  const bool is_reference = rank.cell().role == Role::reference;
  std::optional<DistributedDataParallel> ddp;
  if (!is_reference && recipe.reduction == Reduction::ddp) ddp.emplace(model, rank.group());
  if (is_reference || rank.is("healthy") || rank.is("unstable")) rank.at_branch();
  const Forward forward = [&](const at::Tensor& input) {
    return ddp ? ddp->forward(input) : model(input);
  };
  rank.train([&](std::int64_t step) {
    model.zero_grad();
    if (is_reference) {
      rank.mean_of_rank_gradients(
          model, [&](int owner) { return loss_of(rank, recipe, owner, step, forward); });
    } else {
      loss_of(rank, recipe, rank.rank(), step, forward).backward();
      reduce(rank, recipe.reduction, model);
    }
    rank.observe_gradients(Phase::pre_step, model);
    optimizer->step();
    rank.observe_parameters(Phase::post_step, model);
  });
}

}  // namespace

Scenario random_training() {
  return {
      .summary = "A healthy training that the seed draws.",
      .variants = {{"reference", Role::reference, "one process computes every rank's gradient"},
                   {"unstable-reference", Role::reference, "the same of the unstable training"},
                   {"healthy", Role::fixed, "drawn by the seed"},
                   {"unstable",
                    Role::latent,
                    "32 tanh layers with large weights",
                    {},
                    {},
                    "unstable-reference"}},
      .worlds = {2, 3, 4, 8},
      .steps = 3,
      .axes = {},
      .claims = {agree_across_ranks(Kind::gradient, Phase::pre_step),
                 agree_across_ranks(Kind::parameter, Phase::post_step),
                 equal_reference(Kind::gradient, Phase::pre_step),
                 equal_reference(Kind::parameter, Phase::post_step), ranks_finish()},
      .tables = {},
      .expect = [](const Cell&) { return Expectation{}; },
      .body = train,
  };
}

}  // namespace lockstep
