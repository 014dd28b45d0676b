#include "harness/train/loop/saved_tensors.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/train/helpers.h"

namespace lockstep {
namespace {

TEST(SavedTensors, StayWhatTheyWere) {
  const Tensors live{at::full({2}, 1.0), at::full({}, 2.0)};
  const Tensors saved = saved_tensors(live);
  live[0].fill_(5);
  expect_equal(saved, {at::full({2}, 1.0), at::full({}, 2.0)});
}

TEST(SavedTensors, AreLoadedIntoTheSameTensors) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  const at::Tensor view = parameter.detach().narrow(0, 1, 1);
  load_tensors({parameter}, {at::full({2}, 7.0)});
  expect_equal({view}, {at::full({1}, 7.0)});
  EXPECT_TRUE(parameter.is_leaf());
  EXPECT_FALSE(parameter.grad_fn());
}

}  // namespace
}  // namespace lockstep
