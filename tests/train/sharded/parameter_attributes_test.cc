#include "harness/train/sharded/parameter_attributes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "harness/train/nn/module.h"

namespace lockstep {
namespace {

TEST(ParameterAttributes, BelongToTheTensorWhoeverHoldsIt) {
  const at::Tensor tensor = at::ones({2});
  const at::Tensor same = tensor;
  EXPECT_EQ(attribute(tensor, "ready"), std::nullopt);
  set_attribute(tensor, "ready", 0);
  set_attribute(tensor, "id", 7);
  EXPECT_EQ(attribute(same, "ready"), 0);
  EXPECT_EQ(attribute(same, "id"), 7);
  set_attribute(same, "ready", 1);
  EXPECT_EQ(attribute(tensor, "ready"), 1);
}

TEST(ParameterAttributes, StayWhereDataAreReplaced) {
  Linear layer(3, 2, cpu_generator(1));
  const at::Tensor weight = layer.parameters()[0];
  set_attribute(weight, "id", 3);
  layer.to(at::kFloat);  // no conversion
  EXPECT_EQ(attribute(weight, "id"), 3);
  layer.to(at::kDouble);
  EXPECT_EQ(attribute(weight, "id"), 3);
  const at::NoGradGuard no_grad;
  at::Tensor parameter = weight;
  parameter.set_data(at::ones({5}, at::kDouble).narrow(0, 1, 2));
  EXPECT_EQ(attribute(weight, "id"), 3);
}

TEST(ParameterAttributes, AreNotThoseOfCopies) {
  const at::Tensor tensor = at::ones({2});
  set_attribute(tensor, "id", 1);
  EXPECT_EQ(attribute(tensor.clone(), "id"), std::nullopt);
  EXPECT_EQ(attribute(tensor.view({1, 2}), "id"), std::nullopt);
  EXPECT_EQ(attribute(tensor.detach(), "id"), std::nullopt);
}

TEST(ParameterAttributes, GoWithTheTensor) {
  for (int i = 0; i < 100; ++i) {
    const at::Tensor tensor = at::ones({2});  // possibly at the previous one's address
    EXPECT_EQ(attribute(tensor, "id"), std::nullopt);
    set_attribute(tensor, "id", i);
  }
}

}  // namespace
}  // namespace lockstep
