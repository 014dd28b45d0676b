#include "harness/train/autograd/autocast.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>

#include "reports/base/error.h"

namespace lockstep {
namespace {

at::ScalarType dtype_of_linear() {
  return at::linear(at::ones({2, 3}), at::ones({4, 3})).scalar_type();
}

TEST(AutocastScope, HasOperatorsComputeInItsDtype) {
  {
    const AutocastScope autocast(at::kBFloat16);
    EXPECT_EQ(dtype_of_linear(), at::kBFloat16);
  }
  EXPECT_EQ(dtype_of_linear(), at::kFloat);
}

TEST(AutocastScope, BringsBackTheStateBefore) {
  const AutocastState plain = autocast_state();
  EXPECT_FALSE(plain.is_enabled);
  {
    const AutocastScope outer(at::kHalf);
    const AutocastState half = autocast_state();
    EXPECT_EQ(half, (AutocastState{true, at::kHalf, true}));
    {
      const AutocastScope inner({.is_enabled = true, .dtype = at::kBFloat16, .caches = false});
      EXPECT_EQ(autocast_state(), (AutocastState{true, at::kBFloat16, false}));
      const AutocastScope off(plain);
      EXPECT_EQ(autocast_state(), plain);
      EXPECT_EQ(dtype_of_linear(), at::kFloat);
    }
    EXPECT_EQ(autocast_state(), half);
  }
  EXPECT_EQ(autocast_state(), plain);
}

TEST(AutocastScope, RefusesOtherDtypes) {
  EXPECT_THROW(AutocastScope(at::kDouble), Error);
  EXPECT_FALSE(autocast_state().is_enabled);
}

/// A parameter that was changed after it was cast shows whether the cast was cached.
double sum_after_change(at::Tensor& weight) {
  const auto sum = [&] { return at::linear(at::ones({1, 3}), weight).sum().item<double>(); };
  sum();
  const at::NoGradGuard no_grad;
  weight.fill_(2);
  return sum();
}

TEST(AutocastScope, CachesParametersUntilTheOutermostEnds) {
  at::Tensor weight = at::ones({1, 3}).requires_grad_();
  {
    const AutocastScope outer(at::kBFloat16);
    {
      const AutocastScope inner(at::kBFloat16);
      EXPECT_EQ(sum_after_change(weight), 3);
    }
    EXPECT_EQ(at::linear(at::ones({1, 3}), weight).sum().item<double>(), 3);
  }
  const AutocastScope later(at::kBFloat16);
  EXPECT_EQ(at::linear(at::ones({1, 3}), weight).sum().item<double>(), 6);
}

TEST(AutocastScope, CanDoWithoutTheCache) {
  at::Tensor weight = at::ones({1, 3}).requires_grad_();
  const AutocastScope autocast({.is_enabled = true, .dtype = at::kBFloat16, .caches = false});
  EXPECT_EQ(sum_after_change(weight), 6);
}

TEST(AutocastScope, KeepsTheHistoryOfAParameterThatWasCastWithoutGradMode) {
  const at::Tensor weight = at::ones({1, 3}).requires_grad_();
  const AutocastScope autocast(at::kBFloat16);
  {
    const at::NoGradGuard no_grad;
    at::linear(at::ones({1, 3}), weight);
  }
  at::linear(at::ones({1, 3}), weight).sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), at::ones({1, 3})));
}

}  // namespace
}  // namespace lockstep
