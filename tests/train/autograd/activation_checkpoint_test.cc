#include "harness/train/autograd/activation_checkpoint.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/record/collective_log.h"
#include "harness/train/autograd/activation_memory.h"
#include "harness/train/autograd/autocast.h"
#include "harness/train/autograd/saved_tensor_hooks.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/nn/transformer.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

/// A way to run a segment.
struct Way {
  std::string name;
  std::function<Tensors(const Segment&, const Tensors&, CheckpointOptions)> run;

  at::Tensor operator()(const SegmentOfOne& segment, const at::Tensor& input,
                        const CheckpointOptions& options = {}) const {
    const Segment of_one = [segment](const Tensors& inputs) {
      return Tensors{segment(inputs.front())};
    };
    return run(of_one, {input}, options).front();
  }
};

void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }

const Way kPlain{"plain", [](const Segment& segment, const Tensors& inputs,
                             const CheckpointOptions&) { return segment(inputs); }};

const Way kReentrant{"reentrant", [](const Segment& segment, const Tensors& inputs,
                                     const CheckpointOptions& options) {
                       return checkpoint_reentrant(segment, inputs, options);
                     }};

const Way kEarly{
    "early", [](const Segment& segment, const Tensors& inputs, const CheckpointOptions& options) {
      return checkpoint(segment, inputs, options);
    }};

const Way kWhole{"whole",
                 [](const Segment& segment, const Tensors& inputs, CheckpointOptions options) {
                   options.early_stop = false;
                   return checkpoint(segment, inputs, options);
                 }};

class EveryCheckpoint : public testing::TestWithParam<Way> {};
class EveryRecordingCheckpoint : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Way, EveryCheckpoint, testing::Values(kReentrant, kEarly, kWhole),
                         [](const auto& way) { return way.param.name; });
INSTANTIATE_TEST_SUITE_P(Way, EveryRecordingCheckpoint, testing::Values(kEarly, kWhole),
                         [](const auto& way) { return way.param.name; });

/// A residual MLP with dropout that counts its runs.
class Block : public Module {
 public:
  static constexpr std::int64_t kWidth = 6;

  Block(std::uint64_t seed, const at::Generator& dropout)
      : up_(register_module("up", std::make_shared<Linear>(kWidth, 20, cpu_generator(seed)))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(0.4, dropout))),
        down_(register_module("down",
                              std::make_shared<Linear>(20, kWidth, cpu_generator(seed + 1)))) {}

  at::Tensor forward(const at::Tensor& input) override {
    ++runs;
    return input + down_->forward(dropout_->forward(at::gelu(up_->forward(input))));
  }

  int runs = 0;

 private:
  std::shared_ptr<Linear> up_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Linear> down_;
};

/// Three blocks, each of them a segment.
class Stack : public Module {
 public:
  explicit Stack(Way way) : way_(std::move(way)) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      blocks.push_back(register_module("blocks." + std::to_string(i),
                                       std::make_shared<Block>(10 * i, generator)));
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor output = input;
    for (const auto& block : blocks) output = run(*block, output);
    return output;
  }

  at::Tensor run(Block& block, const at::Tensor& input) {
    CheckpointOptions with_generator = options;
    with_generator.generators = {generator};
    return way_([&block](const at::Tensor& x) { return block.forward(x); }, input, with_generator);
  }

  at::Generator generator = cpu_generator(99);
  CheckpointOptions options;
  std::vector<std::shared_ptr<Block>> blocks;

 private:
  Way way_;
};

at::Tensor batch(at::ScalarType dtype = at::kFloat) {
  return normal({5, Block::kWidth}, 3).to(dtype).requires_grad_();
}

/// The loss and all gradients, those of the input first.
Tensors outcome_of(const std::function<at::Tensor(const at::Tensor&)>& forward,
                   const at::Tensor& input, const Tensors& parameters) {
  const at::Tensor loss = forward(input).pow(2).sum();
  loss.backward();
  Tensors all = {loss.detach(), input.grad()};
  for (const at::Tensor& parameter : parameters) all.push_back(parameter.grad());
  return all;
}

Tensors outcome_of(Module& model, at::ScalarType dtype = at::kFloat) {
  return outcome_of([&](const at::Tensor& x) { return model.forward(x); }, batch(dtype),
                    model.parameters());
}

bool are_equal(const Tensors& some, const Tensors& others) {
  for (std::size_t i = 0; i < some.size(); ++i) {
    if (!at::equal(some[i], others[i])) return false;
  }
  return true;
}

TEST_P(EveryCheckpoint, GivesTheBitsOfThePlainRun) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    Stack plain(kPlain);
    Stack stack(GetParam());
    plain.to(dtype);
    stack.to(dtype);
    for (int step = 0; step < 2; ++step) {
      expect_equal(outcome_of(stack, dtype), outcome_of(plain, dtype));
      EXPECT_TRUE(at::equal(stack.generator.get_state(), plain.generator.get_state()));
    }
  }
}

TEST_P(EveryCheckpoint, RunsEverySegmentTwice) {
  Stack stack(GetParam());
  const at::Tensor loss = stack.forward(batch()).sum();
  for (const auto& block : stack.blocks) EXPECT_EQ(block->runs, 1);
  loss.backward();
  for (const auto& block : stack.blocks) EXPECT_EQ(block->runs, 2);
}

TEST_P(EveryCheckpoint, GivesTheBitsOfAPlainTransformerBlock) {
  const auto outcome = [](const Way& way) {
    TransformerBlock block(8, 2, 16, cpu_generator(5));
    const auto forward = [&](const at::Tensor& x) {
      return way([&](const at::Tensor& y) { return block.forward(y); }, x);
    };
    return outcome_of(forward, normal({2, 3, 8}, 4).requires_grad_(), block.parameters());
  };
  expect_equal(outcome(GetParam()), outcome(kPlain));
}

TEST_P(EveryCheckpoint, GivesTheBitsOfABlockThatIsUsedTwice) {
  const auto outcome = [](const Way& way) {
    Stack stack(way);
    Block& block = *stack.blocks.front();
    const auto forward = [&](const at::Tensor& x) { return stack.run(block, stack.run(block, x)); };
    return outcome_of(forward, batch(), block.parameters());
  };
  expect_equal(outcome(GetParam()), outcome(kPlain));
}

TEST_P(EveryCheckpoint, WithoutItsRandomStateGivesOtherGradients) {
  Stack plain(kPlain);
  Stack stack(GetParam());
  stack.options.restore_random = false;
  const Tensors right = outcome_of(plain);
  const Tensors wrong = outcome_of(stack);
  EXPECT_TRUE(at::equal(right[0], wrong[0]));
  EXPECT_FALSE(are_equal(right, wrong));
  EXPECT_FALSE(at::equal(plain.generator.get_state(), stack.generator.get_state()));
}

Tensors autocast_outcome(const Way& way, bool restore_autocast = true) {
  Stack stack(way);
  stack.options.restore_autocast = restore_autocast;
  const auto forward = [&](const at::Tensor& x) {
    const AutocastScope autocast(at::kBFloat16);
    return stack.forward(x).to(at::kFloat);
  };
  return outcome_of(forward, batch(), stack.parameters());
}

TEST_P(EveryCheckpoint, RecomputesUnderTheAutocastOfForward) {
  const Tensors plain = autocast_outcome(kPlain);
  expect_equal(autocast_outcome(GetParam()), plain);
  Stack without(kPlain);
  EXPECT_FALSE(are_equal(outcome_of(without), plain));
}

TEST_P(EveryCheckpoint, RecomputesWithoutAutocastWhereForwardHadNone) {
  const auto gradient = [](const Way& way) {
    Stack stack(way);
    const at::Tensor input = batch();
    const at::Tensor loss = stack.forward(input).pow(2).sum();
    const AutocastScope autocast(at::kBFloat16);
    const AutocastState before = autocast_state();
    loss.backward();
    EXPECT_EQ(autocast_state(), before);
    return Tensors{input.grad()};
  };
  expect_equal(gradient(GetParam()), gradient(kPlain));
}

TEST(ReentrantCheckpoint, WithoutItsAutocastGivesOtherGradients) {
  EXPECT_FALSE(are_equal(autocast_outcome(kReentrant, false), autocast_outcome(kPlain)));
}

TEST_P(EveryRecordingCheckpoint, WithoutItsAutocastIsRefused) {
  EXPECT_THROW(autocast_outcome(GetParam(), false), Error);
}

TEST_P(EveryCheckpoint, RecordsNothingWithoutGradMode) {
  Stack stack(GetParam());
  const at::NoGradGuard no_grad;
  const at::Tensor output = stack.forward(batch());
  EXPECT_FALSE(output.requires_grad());
  EXPECT_EQ(stack.blocks[0]->runs, 1);
}

TEST_P(EveryCheckpoint, AllowsASecondBackwardThroughARetainedGraph) {
  Stack plain(kPlain);
  Stack stack(GetParam());
  const Tensors once = outcome_of(plain);
  const at::Tensor input = batch();
  const at::Tensor loss = stack.forward(input).pow(2).sum();
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(at::equal(input.grad(), once[1]));
  loss.backward();
  EXPECT_TRUE(at::equal(input.grad(), once[1] * 2));
  const Tensors parameters = stack.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(parameters[i].grad(), once[i + 2] * 2)) << i;
  }
  for (const auto& block : stack.blocks) EXPECT_EQ(block->runs, 3);
  EXPECT_THROW(loss.backward(), c10::Error);
}

/// Two outputs of two inputs.
Tensors sine_and_product(const Tensors& inputs) {
  return {inputs[0].sin() * inputs[1], inputs[0] * inputs[1].exp()};
}

TEST_P(EveryCheckpoint, MayHaveOutputsThatNobodyUses) {
  for (const int used : {0, 1}) {
    const auto gradients = [&](const Way& way) {
      const Tensors inputs = {normal({4}, 1).requires_grad_(), normal({4}, 2).requires_grad_()};
      at::Tensor output = way.run(sine_and_product, inputs, {}).at(used);
      output.pow(2).sum().backward();
      return Tensors{inputs[0].grad(), inputs[1].grad()};
    };
    expect_equal(gradients(GetParam()), gradients(kPlain));
  }
}

TEST_P(EveryCheckpoint, MayHaveAnOutputThatIsSaved) {
  const auto gradient = [](const Way& way) {
    const at::Tensor input = normal({4}, 1).requires_grad_();
    const at::Tensor output = way([](const at::Tensor& x) { return x.sigmoid().exp(); }, input);
    (output.exp() * output.pow(3)).sum().backward();
    return Tensors{input.grad()};
  };
  expect_equal(gradient(GetParam()), gradient(kPlain));
}

TEST_P(EveryCheckpoint, MayGiveBackItsInput) {
  const auto gradient = [](const Way& way) {
    const at::Tensor input = normal({4}, 1).requires_grad_();
    const Tensors outputs = way.run(
        [](const Tensors& inputs) {
          return Tensors{inputs[0], inputs[0].sin()};
        },
        {input}, {});
    (outputs[0] * outputs[1]).sum().backward();
    return Tensors{input.grad()};
  };
  expect_equal(gradient(GetParam()), gradient(kPlain));
}

TEST_P(EveryCheckpoint, GivesNoGradientToAnInputThatNeedsNone) {
  const auto gradients = [](const Way& way) {
    const Tensors inputs = {normal({4}, 1).requires_grad_(), normal({4}, 2)};
    const Tensors outputs = way.run(sine_and_product, inputs, {});
    (outputs[0] + outputs[1]).sum().backward();
    EXPECT_FALSE(inputs[1].grad().defined());
    return Tensors{inputs[0].grad()};
  };
  expect_equal(gradients(GetParam()), gradients(kPlain));
}

TEST_P(EveryCheckpoint, MayHaveAnInputOfWholeNumbers) {
  const auto gradient = [](const Way& way) {
    const Tensors inputs = {normal({4, 3}, 1).requires_grad_(), at::tensor({2, 0, 2})};
    const auto segment = [](const Tensors& given) {
      return Tensors{given[0].index_select(0, given[1]).sin(), given[1] + 1};
    };
    way.run(segment, inputs, {})[0].sum().backward();
    return Tensors{inputs[0].grad()};
  };
  expect_equal(gradient(GetParam()), gradient(kPlain));
}

TEST_P(EveryRecordingCheckpoint, TrainsParametersWithoutAnInputThatNeedsAGradient) {
  const auto gradients = [](const Way& way) {
    Stack stack(way);
    stack.forward(batch().detach()).pow(2).sum().backward();
    Tensors all;
    for (const at::Tensor& parameter : stack.parameters()) all.push_back(parameter.grad());
    return all;
  };
  expect_equal(gradients(GetParam()), gradients(kPlain));
}

TEST(ReentrantCheckpoint, RecordsNothingWhereNoInputNeedsAGradient) {
  Stack stack(kReentrant);
  EXPECT_FALSE(stack.forward(batch().detach()).requires_grad());
}

TEST_P(EveryCheckpoint, UpdatesTheStatisticsOfBatchNormTwice) {
  const auto statistics = [](const Way& way) {
    BatchNorm1d norm(Block::kWidth);
    Linear linear(Block::kWidth, 2, cpu_generator(1));
    const auto segment = [&](const at::Tensor& x) { return linear.forward(norm.forward(x)); };
    way(segment, batch()).pow(2).sum().backward();
    return norm.buffers();
  };
  const Tensors once = statistics(kPlain);
  const Tensors twice = statistics(GetParam());
  EXPECT_EQ(once[2].item<int>(), 1);
  EXPECT_EQ(twice[2].item<int>(), 2);
  EXPECT_FALSE(at::equal(once[0], twice[0]));
}

/// State that a checkpoint must not change.
class Surroundings {
 public:
  explicit Surroundings(at::Generator generator)
      : generator_(std::move(generator)), random_(generator_.get_state()) {}

  void expect_unchanged() {
    EXPECT_TRUE(at::equal(generator_.get_state(), random_));
    EXPECT_EQ(autocast_state(), autocast_);
    EXPECT_TRUE(at::GradMode::is_enabled());
    int packs = 0;
    const at::Tensor x = at::ones({1}).requires_grad_();
    {
      const SavedTensorHooks hooks([&](const at::Tensor& saved) -> Unpack {
        ++packs;
        return [tensor = saved.detach()] { return tensor; };
      });
      x.pow(2);
    }
    EXPECT_EQ(packs, 1);
    const at::Tensor y = x.pow(2).sum();
    y.backward();
    EXPECT_TRUE(at::equal(x.grad(), at::full({1}, 2.0)));
    EXPECT_THROW(y.backward(), c10::Error);  // hooks would not notice
  }

 private:
  at::Generator generator_;
  at::Tensor random_;
  AutocastState autocast_ = autocast_state();
};

/// Fails in the middle of its `run`th run.
SegmentOfOne failing_in(int run, Block& block) {
  return [run, &block](const at::Tensor& x) {
    const at::Tensor y = block.forward(x.sin());
    if (block.runs == run) throw std::out_of_range("in run " + std::to_string(run));
    return y.exp();
  };
}

TEST_P(EveryCheckpoint, PassesOnWhatForwardThrowsAndLeavesAllAsItWas) {
  Block block(1, cpu_generator(2));
  block.train(false);
  const at::Generator generator = cpu_generator(3);
  Surroundings surroundings(generator);
  EXPECT_THROW(GetParam()(failing_in(1, block), batch(), {.generators = {generator}}),
               std::out_of_range);
  surroundings.expect_unchanged();
}

TEST_P(EveryCheckpoint, PassesOnWhatRecomputingThrowsAndLeavesAllAsItWas) {
  at::Generator generator = cpu_generator(3);
  Block block(1, generator);
  at::Tensor output;
  const at::Tensor input = batch();
  {
    const AutocastScope autocast(at::kBFloat16);
    output = GetParam()(failing_in(2, block), input, {.generators = {generator}}).sum();
  }
  normal({3}, 1).uniform_(0, 1, generator);
  Surroundings surroundings(generator);
  EXPECT_THROW(output.backward({}, /*retain_graph=*/true), std::out_of_range);
  surroundings.expect_unchanged();
  output.backward();
  EXPECT_TRUE(input.grad().defined());
  surroundings.expect_unchanged();
}

/// `depth` levels of checkpoints: each level is an operation, the level below and another
/// operation.
at::Tensor nested(const std::vector<Way>& ways, std::size_t depth, const at::Tensor& x, int& runs) {
  if (depth == ways.size()) {
    ++runs;
    return x.sin().exp();
  }
  const auto segment = [&ways, depth, &runs](const at::Tensor& y) {
    return nested(ways, depth + 1, y.cos(), runs).sigmoid() * y;
  };
  return ways[depth](segment, x).tanh();
}

TEST(NestedCheckpoints, GiveTheBitsOfThePlainRun) {
  const std::vector<Way> all = {kReentrant, kEarly, kWhole};
  const at::Tensor values = normal({4}, 1);
  for (const Way& first : all) {
    for (const Way& second : all) {
      for (const Way& third : all) {
        int runs = 0;
        const std::vector<Way> plain = {kPlain, kPlain, kPlain};
        const std::vector<Way> ways = {first, second, third};
        const auto outcome = [&](const std::vector<Way>& chosen) {
          return outcome_of([&](const at::Tensor& x) { return nested(chosen, 0, x, runs); },
                            values.clone().requires_grad_(), {});
        };
        const Tensors expected = outcome(plain);
        runs = 0;
        SCOPED_TRACE(first.name + " " + second.name + " " + third.name);
        expect_equal(outcome(ways), expected);
        EXPECT_GE(runs, 2);
        EXPECT_LE(runs, 4);
      }
    }
  }
}

TEST(NestedCheckpoints, RunOncePerLevelMoreWhereTheyEndAsLateAsTheirs) {
  int runs = 0;
  nested({kWhole, kWhole, kWhole}, 0, normal({4}, 1).requires_grad_(), runs).sum().backward();
  EXPECT_EQ(runs, 4);
}

TEST_P(EveryRecordingCheckpoint, InsideOfAnotherSurvivesASecondBackward) {
  int runs = 0;
  const at::Tensor x = normal({4}, 1).requires_grad_();
  const std::vector<Way> ways = {GetParam(), GetParam()};
  const at::Tensor y = nested(ways, 0, x, runs).sum();
  y.backward({}, /*retain_graph=*/true);
  const at::Tensor once = x.grad().clone();
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_TRUE(at::equal(x.grad(), once + once + once));
}

/// Whether the segment was recomputed to its end.
bool reaches_its_end(const CheckpointOptions& options) {
  int exits = 0;
  const at::Tensor x = normal({4}, 1).requires_grad_();
  const auto segment = [&](const at::Tensor& y) {
    const at::Tensor z = y.sin().cos();
    ++exits;
    return z + 1;
  };
  checkpoint(segment, x, options).sum().backward();
  return exits == 2;
}

TEST(ActivationCheckpoint, StopsRecomputingWithTheLastTensorThatIsNeeded) {
  EXPECT_FALSE(reaches_its_end({}));
  EXPECT_TRUE(reaches_its_end({.early_stop = false}));
}

TEST(ActivationCheckpoint, StopsRecomputingWhereTheSegmentHoldsOnToEveryException) {
  const at::Tensor x = normal({4}, 1).requires_grad_();
  const auto segment = [](const at::Tensor& y) {
    const at::Tensor z = y.sin();
    try {
      return z.cos().tanh();
    } catch (const std::exception&) {
      return z.exp();
    }
  };
  checkpoint(segment, x).sum().backward();
  const at::Tensor expected = x.detach().clone().requires_grad_();
  segment(expected).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), expected.grad()));
}

/// Saves `first` tensors in its first run, `later` ones in others.
SegmentOfOne unsteady(int first, int later, std::shared_ptr<int> runs = std::make_shared<int>()) {
  return [=](const at::Tensor& x) {
    at::Tensor y = x;
    const int steps = ++*runs == 1 ? first : later;
    for (int i = 0; i < steps; ++i) y = y.sin();
    return y;
  };
}

std::string refusal(const SegmentOfOne& segment, const CheckpointOptions& options = {}) {
  const at::Tensor y = checkpoint(segment, normal({4}, 1).requires_grad_(), options).sum();
  try {
    y.backward();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::internal);
    return error.what();
  }
  return "";
}

TEST(ActivationCheckpoint, RefusesARecomputationThatSavesAnotherNumberOfTensors) {
  EXPECT_THAT(refusal(unsteady(3, 2)), HasSubstr("saved 3 tensors in forward and 2 when"));
  EXPECT_THAT(refusal(unsteady(2, 3)), "");
  const CheckpointOptions whole = {.early_stop = false};
  EXPECT_THAT(refusal(unsteady(3, 2), whole), HasSubstr("saved 3 tensors in forward and 2 when"));
  EXPECT_THAT(refusal(unsteady(2, 3), whole), HasSubstr("saved 2 tensors in forward and 3 when"));
}

TEST(ActivationCheckpoint, RefusesARecomputationThatSavesOtherTensors) {
  const auto changing = [](const auto& change) {
    return [change, runs = std::make_shared<int>()](const at::Tensor& x) {
      return (++*runs == 1 ? x : change(x)).sin();
    };
  };
  EXPECT_THAT(refusal(changing([](const at::Tensor& x) { return x.to(at::kDouble); })),
              HasSubstr("saved Float [4] on cpu in forward and Double [4] on cpu when"));
  EXPECT_THAT(refusal(changing([](const at::Tensor& x) { return x.narrow(0, 0, 2); })),
              HasSubstr("saved Float [4] on cpu in forward and Float [2] on cpu when"));
}

TEST(ActivationCheckpoint, CanBeRecomputedAfterARefusal) {
  const auto runs = std::make_shared<int>();
  const at::Tensor x = normal({4}, 1).requires_grad_();
  const at::Tensor y = checkpoint(unsteady(3, 2, runs), x).sum();
  EXPECT_THROW(y.backward({}, true), Error);
  *runs = 0;
  y.backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST_P(EveryRecordingCheckpoint, MayRunABackwardOfItsOwnInside) {
  for (const bool retain : {true, false}) {
    const auto segment = [retain](const Tensors& inputs) {
      const at::Tensor y = inputs[0].sin();
      const at::Tensor z = y.cos();
      const Tensors gradient = torch::autograd::grad({z.sum()}, {inputs[0]}, {}, retain);
      return Tensors{inputs[0].cos() * gradient[0], retain ? z.exp() : inputs[0].exp()};
    };
    const auto gradient = [&](const Way& way) {
      const at::Tensor x = normal({4}, 1).requires_grad_();
      const Tensors outputs = way.run(segment, {x}, {});
      (outputs[0] + outputs[1]).sum().backward();
      return Tensors{x.grad()};
    };
    SCOPED_TRACE(retain);
    expect_equal(gradient(GetParam()), gradient(kPlain));
  }
}

TEST_P(EveryRecordingCheckpoint, GivesChosenGradients) {
  Stack plain(kPlain);
  const Tensors expected = outcome_of(plain);
  Stack stack(GetParam());
  const at::Tensor input = batch();
  const at::Tensor loss = stack.forward(input).pow(2).sum();
  EXPECT_TRUE(at::equal(torch::autograd::grad({loss}, {input})[0], expected[1]));
  EXPECT_FALSE(input.grad().defined());
}

TEST(ReentrantCheckpoint, FreesTheGraphOfATensorThatIsNoInput) {
  const at::Tensor x = normal({4}, 1).requires_grad_();
  const at::Tensor weight = normal({4}, 2).requires_grad_();
  const at::Tensor scale = weight.exp();
  const at::Tensor y =
      checkpoint_reentrant([&](const at::Tensor& input) { return input * scale; }, x).sum();
  y.backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(at::equal(weight.grad(), (x * scale).detach()));
  EXPECT_THROW(scale.sum().backward(), c10::Error);
}

TEST(ReentrantCheckpoint, RefusesToGiveChosenGradients) {
  Stack stack(kReentrant);
  const at::Tensor input = batch();
  const at::Tensor loss = stack.forward(input).pow(2).sum();
  EXPECT_THROW(torch::autograd::grad({loss}, {input}), Error);
}

TEST(ReentrantCheckpoint, RefusesASegmentWhoseOutputsNeedNoGradient) {
  const at::Tensor x = normal({4}, 1).requires_grad_();
  const at::Tensor y =
      checkpoint_reentrant([](const at::Tensor& input) { return input.detach().sin(); }, x);
  EXPECT_THROW(y.sum().backward(), Error);
}

TEST_P(EveryRecordingCheckpoint, NoticesAnInputThatWasChangedInPlace) {
  at::Tensor x = normal({4}, 1);
  const at::Tensor weight = normal({4}, 2).requires_grad_();
  const auto segment = [&](const at::Tensor& y) { return y * weight; };
  const at::Tensor loss = GetParam()(segment, x).sum();
  x.add_(1);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_P(EveryCheckpoint, DropsTheSegmentWithTheGraph) {
  const auto kept = std::make_shared<int>();
  at::Tensor y = GetParam()([kept](const at::Tensor& x) { return x.sin(); }, batch());
  EXPECT_GE(kept.use_count(), 2);
  y = at::Tensor();
  EXPECT_EQ(kept.use_count(), 1);
}

// Memory

/// A segment that saves inputs and results of its operations.
at::Tensor long_segment(const at::Tensor& x) { return x.sin().exp().tanh().cos().sigmoid(); }

TEST_P(EveryCheckpoint, KeepsNothingOfWhatItRecomputed) {
  const ActivationMemory memory;
  at::Tensor x = normal({100}, 1).requires_grad_();
  x.mutable_grad() = at::zeros({100});
  at::Tensor loss = GetParam()(long_segment, x).sum();
  const std::int64_t before = memory.live();
  for (int i = 0; i < 3; ++i) {
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(memory.live(), before);
  }
  loss.backward();
  loss = x = at::Tensor();
  EXPECT_EQ(memory.live(), 0);
}

TEST_P(EveryCheckpoint, KeepsNothingOfARecomputationThatFailed) {
  const ActivationMemory memory;
  const at::Tensor x = normal({100}, 1).requires_grad_();
  x.mutable_grad() = at::zeros({100});
  int runs = 0;
  const auto segment = [&](const at::Tensor& y) {
    const at::Tensor z = y.sin().exp();
    if (++runs == 2) throw std::out_of_range("no more");
    return z.tanh().cos();
  };
  const at::Tensor loss = GetParam()(segment, x).sum();
  const std::int64_t before = memory.live();
  EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), std::out_of_range);
  EXPECT_EQ(memory.live(), before);
}

// Under DDP

/// The group of a world of one rank.
class LoneRank {
 public:
  ProcessGroup& group() { return group_; }

 private:
  TemporaryFolder folder_;
  CollectiveLog log_{folder_.path() / "collectives", 0};
  ProcessGroup group_{RankPlacement(), GroupOptions(), log_};
};

/// Gradients after two steps of DDP over a stack with a block that runs `uses` times.
Tensors ddp_gradients(const Way& way, int uses, const DdpOptions& options) {
  LoneRank rank;
  Stack stack(way);
  DistributedDataParallel ddp(stack, rank.group(), options);
  for (int step = 0; step < 2; ++step) {
    stack.zero_grad();
    const Tensors outputs = ddp.forward([&] {
      at::Tensor output = stack.forward(batch());
      for (int use = 1; use < uses; ++use) output = stack.run(*stack.blocks.front(), output);
      return Tensors{output};
    });
    outputs.front().pow(2).sum().backward();
  }
  Tensors all;
  for (const at::Tensor& parameter : stack.parameters()) all.push_back(parameter.grad().clone());
  return all;
}

TEST_P(EveryCheckpoint, GivesTheBitsOfThePlainRunUnderDdp) {
  for (const bool view : {false, true}) {
    const DdpOptions options{.gradient_as_bucket_view = view};
    expect_equal(ddp_gradients(GetParam(), 1, options), ddp_gradients(kPlain, 1, options));
  }
}

TEST_P(EveryRecordingCheckpoint, GivesTheBitsOfABlockThatIsUsedTwiceUnderDdp) {
  for (const bool find : {false, true}) {
    const DdpOptions options{.find_unused_parameters = find};
    expect_equal(ddp_gradients(GetParam(), 2, options), ddp_gradients(kPlain, 2, options));
  }
}

TEST(ReentrantCheckpoint, OfABlockThatIsUsedTwiceIsRefusedByDdp) {
  try {
    ddp_gradients(kReentrant, 3, {});
    FAIL() << "the reducer took it";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("marked as ready twice"));
  }
}

}  // namespace
}  // namespace lockstep
