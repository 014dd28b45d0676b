#include "harness/train/autograd/activation_offload.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/activation_memory.h"
#include "harness/train/autograd/autocast.h"
#include "harness/train/nn/transformer.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

/// Memory of a training step, in bytes, and its gradients.
struct Step {
  std::int64_t live_after_forward = 0;
  std::int64_t peak = 0;
  std::int64_t host_after_forward = 0;
  std::int64_t host_after_backward = 0;
  Tensors gradients;
};

using RunSegment = std::function<at::Tensor(const SegmentOfOne&, const at::Tensor&)>;

constexpr std::int64_t kBlocks = 4;
constexpr std::int64_t kHidden = 16;
constexpr std::int64_t kActivation = 8 * 24 * kHidden * sizeof(float);  ///< of one block's input

/// A step of a stack of transformer blocks, each of which `run` runs, in a `Scope`.
template <class Scope>
Step step(const RunSegment& run) {
  std::vector<std::unique_ptr<TransformerBlock>> blocks;
  for (std::int64_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::make_unique<TransformerBlock>(kHidden, 2, 64, cpu_generator(i)));
    // Gradients exist beforehand, so they do not count as activations.
    for (at::Tensor& parameter : blocks.back()->parameters()) {
      parameter.mutable_grad() = at::zeros(parameter.sizes());
    }
  }
  const at::Tensor input = normal({8, 24, kHidden}, 3).requires_grad_();
  Step result;
  {
    const ActivationMemory memory;
    at::Tensor output = input;
    {
      [[maybe_unused]] const Scope scope{};
      for (const auto& block : blocks) {
        output = run([&](const at::Tensor& x) { return block->forward(x); }, output * 1);
      }
    }
    at::Tensor loss = output.pow(2).sum();
    output = at::Tensor();
    result.live_after_forward = memory.live();
    result.host_after_forward = memory.host_live();
    loss.backward();
    result.host_after_backward = memory.host_live();
    result.peak = memory.peak();
  }
  result.gradients.push_back(input.grad());
  for (const auto& block : blocks) {
    for (const at::Tensor& parameter : block->parameters()) {
      result.gradients.push_back(parameter.grad());
    }
  }
  return result;
}

struct Nothing {};

at::Tensor plain(const SegmentOfOne& segment, const at::Tensor& input) { return segment(input); }

at::Tensor reentrant(const SegmentOfOne& segment, const at::Tensor& input) {
  return checkpoint_reentrant(segment, input);
}

at::Tensor not_reentrant(const SegmentOfOne& segment, const at::Tensor& input) {
  return checkpoint(segment, input);
}

TEST(OffloadScope, MovesActivationsToHostMemory) {
  const Step kept = step<Nothing>(plain);
  const Step offloaded = step<OffloadScope>(plain);
  expect_equal(offloaded.gradients, kept.gradients);
  EXPECT_EQ(kept.host_after_forward, 0);
  EXPECT_GT(offloaded.host_after_forward, kept.live_after_forward / 2);
  EXPECT_LT(offloaded.live_after_forward, kept.live_after_forward / 5);
  EXPECT_LT(offloaded.peak, kept.peak);
  EXPECT_EQ(offloaded.host_after_backward, 0);
}

class OffloadedInputs : public testing::TestWithParam<RunSegment> {};

/// The form used by single-GPU trainers, and the form that works under DDP.
TEST_P(OffloadedInputs, OfCheckpointsAreAllThatIsMoved) {
  const Step whole = step<Nothing>(plain);
  const Step kept = step<Nothing>(GetParam());
  const Step offloaded = step<OffloadScope>(GetParam());
  expect_equal(kept.gradients, whole.gradients);
  expect_equal(offloaded.gradients, whole.gradients);
  // The loss, which is outside, saves the last block's output.
  EXPECT_EQ(offloaded.host_after_forward, kBlocks * kActivation);
  EXPECT_EQ(offloaded.host_after_backward, 0);
  EXPECT_EQ(kept.live_after_forward - offloaded.live_after_forward, kBlocks * kActivation);
  EXPECT_LT(kept.live_after_forward, whole.live_after_forward / 5);
  EXPECT_LT(kept.peak, whole.peak);
  EXPECT_LT(offloaded.peak, kept.peak);
}

INSTANTIATE_TEST_SUITE_P(Way, OffloadedInputs, testing::Values(reentrant, not_reentrant),
                         [](const auto& way) {
                           return way.index == 0 ? "reentrant" : "not_reentrant";
                         });

TEST(OffloadScope, BegunInsideOfASegmentTakesItsTensorsFromTheCheckpoint) {
  const ActivationMemory memory;
  const at::Tensor x = normal({100}, 1).requires_grad_();
  const auto segment = [](const at::Tensor& y) {
    const OffloadScope offload;
    return y.exp().sin().cos();
  };
  at::Tensor loss = checkpoint(segment, x).sum();
  EXPECT_EQ(memory.host_live(), 3 * 400);
  const at::Tensor expected = x.detach().clone().requires_grad_();
  expected.exp().sin().cos().sum().backward();
  loss.backward();
  EXPECT_TRUE(at::equal(x.grad(), expected.grad()));
}

std::int64_t host_bytes_of(const std::function<at::Tensor()>& forward) {
  const ActivationMemory memory;
  const OffloadScope offload;
  const at::Tensor kept = forward();
  return memory.host_live();
}

TEST(OffloadScope, CopiesNoParameters) {
  Linear linear(20, 30, cpu_generator(1));
  const at::Tensor input = normal({5, 20}, 2);
  EXPECT_EQ(host_bytes_of([&] { return linear.forward(input); }), 5 * 20 * 4);
  const at::Tensor hidden = normal({5, 20}, 2).requires_grad_() * 1;
  EXPECT_EQ(host_bytes_of([&] { return linear.forward(hidden); }), 5 * 20 * 4);
}

TEST(OffloadScope, CopiesWhatIsSavedTwiceTwice) {
  const at::Tensor hidden = normal({10}, 2).requires_grad_() * 1;
  EXPECT_EQ(host_bytes_of([&] { return hidden.sin() + hidden.cos(); }), 2 * 40);
}

TEST(OffloadScope, GivesBackEveryLayoutBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto gradients = [&](bool offloads) {
      const at::Tensor x = normal({6, 8}, 1).to(dtype).requires_grad_();
      const at::Tensor y = x * 1;
      at::Tensor loss;
      {
        std::optional<OffloadScope> offload;
        if (offloads) offload.emplace();
        loss = (y.t().sin().t() * y.narrow(1, 2, 1).expand({6, 8}).exp() *
                y.slice(1, 0, 8, 2).repeat({1, 2}).cos())
                   .sum();
      }
      loss.backward();
      return x.grad();
    };
    EXPECT_TRUE(at::equal(gradients(true), gradients(false)));
  }
}

std::int64_t live_in_backward = 0;  ///< in the last backward of `Watched`

/// The identity; records the live memory while its backward holds the input.
class Watched : public torch::autograd::Function<Watched> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const ActivationMemory* memory) {
    context->save_for_backward({x});
    context->saved_data["memory"] = reinterpret_cast<std::int64_t>(memory);
    return x.clone();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const std::int64_t memory = context->saved_data["memory"].toInt();
    live_in_backward = reinterpret_cast<const ActivationMemory*>(memory)->live();
    return {gradients[0] * 1, at::Tensor()};
  }
};

TEST(OffloadScope, CopiesBackForAsLongAsBackwardNeedsIt) {
  const ActivationMemory memory;
  at::Tensor x = normal({1000}, 1).requires_grad_() * 1;
  at::Tensor y;
  {
    const OffloadScope offload;
    y = Watched::apply(x, &memory);
  }
  const at::Tensor gradient = at::ones({1000});
  x = at::Tensor();
  const std::int64_t before = memory.live();
  EXPECT_EQ(memory.host_live(), 4000);
  y.backward(gradient, /*retain_graph=*/true);
  EXPECT_EQ(live_in_backward, before + 4000);
  EXPECT_EQ(memory.host_live(), 4000);
}

TEST(OffloadScope, AllowsASecondBackward) {
  const at::Tensor x = normal({10}, 1).requires_grad_();
  at::Tensor loss;
  {
    const OffloadScope offload;
    loss = x.sin().exp().sum();
  }
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor once = x.grad().clone();
  loss.backward();
  EXPECT_TRUE(at::equal(x.grad(), once * 2));
}

TEST(OffloadScope, WorksUnderAutocast) {
  const auto gradients = [](const RunSegment& run, bool offloads) {
    Mlp mlp(8, 16, cpu_generator(1));
    const at::Tensor input = normal({5, 8}, 2).requires_grad_();
    at::Tensor loss;
    {
      const AutocastScope autocast(at::kBFloat16);
      std::optional<OffloadScope> offload;
      if (offloads) offload.emplace();
      loss = run([&](const at::Tensor& x) { return mlp.forward(x * 2); }, input * 1)
                 .to(at::kFloat)
                 .pow(2)
                 .sum();
    }
    loss.backward();
    Tensors all = {input.grad()};
    for (const at::Tensor& parameter : mlp.parameters()) all.push_back(parameter.grad());
    return all;
  };
  const Tensors expected = gradients(plain, false);
  for (const RunSegment& run : std::vector<RunSegment>{plain, reentrant, not_reentrant}) {
    expect_equal(gradients(run, true), expected);
  }
}

}  // namespace
}  // namespace lockstep
