#include "harness/train/nn/swiglu.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sigmoid.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

/// Multiples of 1/4 from -1 to 3/4.
at::Tensor quarters(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randint(-4, 4, shape, cpu_generator(seed), at::kFloat) / 4;
}

void set_to_quarters(const Module& module) {
  const c10::NoGradGuard no_grad;
  std::uint64_t seed = 30;
  for (at::Tensor& parameter : module.parameters()) {
    parameter.copy_(quarters(parameter.sizes(), seed++));
  }
}

TEST(SwiGlu, IsTheFormulaOfThePaper) {
  SwiGlu mlp(6, 10, cpu_generator(5));
  const auto weights = mlp.parameters();
  const at::Tensor input = at::randn({2, 3, 6}, cpu_generator(1), at::TensorOptions());
  const at::Tensor gate = input.matmul(weights[0].t());
  const at::Tensor hidden = gate * at::sigmoid(gate) * input.matmul(weights[1].t());
  EXPECT_TRUE(at::allclose(mlp.forward(input), hidden.matmul(weights[2].t()), 0, 1e-6));
}

TEST(SwiGlu, HasThreeWeightsWithoutBias) {
  const SwiGlu mlp(6, 10, cpu_generator(5));
  std::vector<std::string> parameters;
  for (const NamedTensor& entry : mlp.named_parameters()) {
    parameters.push_back(entry.name + " " + std::to_string(entry.tensor.size(0)) + " " +
                         std::to_string(entry.tensor.size(1)));
  }
  EXPECT_THAT(parameters, ElementsAre("gate.weight 10 6", "up.weight 10 6", "down.weight 6 10"));
}

TEST(SwiGlu, IsAnExactPolynomialWithoutItsActivation) {
  SwiGlu mlp(6, 10, cpu_generator(5), GateActivation::identity);
  set_to_quarters(mlp);
  const at::Tensor input = quarters({2, 3, 6}, 1);
  const at::Tensor output = mlp.forward(input);
  EXPECT_TRUE(at::equal(mlp.forward(input * -2), output * 4));

  std::vector<at::Tensor> exact;
  for (const at::Tensor& parameter : mlp.parameters()) exact.push_back(parameter.to(at::kDouble));
  const at::Tensor wide = input.to(at::kDouble);
  const at::Tensor hidden = wide.matmul(exact[0].t()) * wide.matmul(exact[1].t());
  EXPECT_TRUE(at::equal(output.to(at::kDouble), hidden.matmul(exact[2].t())));
}

TEST(SwiGlu, HasTheGradientsOfItsTilesWithoutItsActivation) {
  SwiGlu mlp(6, 10, cpu_generator(5), GateActivation::identity);
  set_to_quarters(mlp);
  const at::Tensor input = quarters({1, 8, 6}, 1);
  const at::Tensor gradient = quarters({1, 8, 6}, 2);
  mlp.forward(input).backward(gradient);
  std::vector<at::Tensor> whole;
  for (const at::Tensor& parameter : mlp.parameters()) whole.push_back(parameter.grad());
  mlp.zero_grad();
  for (const std::int64_t first : {0, 5}) {
    const std::int64_t size = first == 0 ? 5 : 3;
    mlp.forward(input.narrow(1, first, size)).backward(gradient.narrow(1, first, size));
  }
  const auto named = mlp.named_parameters();
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_TRUE(at::equal(named[i].tensor.grad(), whole[i])) << named[i].name;
  }
}

/// Adds 1 to the result of its wrapped module.
class PlusOne : public Module {
 public:
  explicit PlusOne(std::shared_ptr<Module> base)
      : base_(register_module("base", std::move(base))) {}
  at::Tensor forward(const at::Tensor& input) override { return base_->forward(input) + 1; }

 private:
  std::shared_ptr<Module> base_;
};

TEST(SwiGlu, RunsWhatItsProjectionsAreWrappedIn) {
  SwiGlu mlp(6, 10, cpu_generator(5), GateActivation::identity);
  set_to_quarters(mlp);
  mlp.wrap_projections([](auto projection) { return std::make_shared<PlusOne>(projection); });
  const auto weights = mlp.parameters();
  const at::Tensor input = quarters({3, 6}, 1);
  const at::Tensor hidden = (input.matmul(weights[0].t()) + 1) * (input.matmul(weights[1].t()) + 1);
  EXPECT_TRUE(at::equal(mlp.forward(input), hidden.matmul(weights[2].t()) + 1));
  EXPECT_THAT(mlp.named_parameters()[2].name, "down.base.weight");
}

class Whole : public Module {
 public:
  using Module::replace_module;
  at::Tensor forward(const at::Tensor& input) override { return input; }
};

TEST(Module, ReplacesNoPartThatItDoesNotHave) {
  Whole whole;
  EXPECT_THROW(whole.replace_module("gate", std::make_shared<Whole>()), Error);
}

}  // namespace
}  // namespace lockstep
