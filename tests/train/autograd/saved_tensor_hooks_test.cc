#include "harness/train/autograd/saved_tensor_hooks.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Records operations on saved tensors, and stores the tensors.
struct Noting {
  explicit Noting(std::string given) : name(std::move(given)) {}

  Pack pack() {
    return [this](const at::Tensor& saved) -> Unpack {
      notes->push_back("pack " + name);
      return [notes = notes, name = name, tensor = saved.detach()] {
        notes->push_back("unpack " + name);
        return tensor;
      };
    };
  }

  std::string name;
  std::shared_ptr<std::vector<std::string>> notes = std::make_shared<std::vector<std::string>>();
};

at::Tensor leaf(double value) { return at::full({2}, value).requires_grad_(); }

TEST(SavedTensorHooks, GetWhatIsSavedInTheirLifeAndNothingElse) {
  Noting noting("a");
  const at::Tensor x = leaf(3);
  at::Tensor y = x.pow(2);
  {
    const SavedTensorHooks hooks(noting.pack());
    y = y.pow(2);
  }
  y = y.pow(2);
  EXPECT_THAT(*noting.notes, ElementsAre("pack a"));
  y.sum().backward();
  EXPECT_THAT(*noting.notes, ElementsAre("pack a", "unpack a"));
  EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 8 * 2187.0)));
}

TEST(SavedTensorHooks, MayGiveAnotherTensorThanTheOneThatWasSaved) {
  const at::Tensor x = leaf(3);
  at::Tensor y;
  {
    const SavedTensorHooks hooks(
        [](const at::Tensor&) -> Unpack { return [] { return at::full({2}, 10.0); }; });
    y = x.pow(2);
  }
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 20.0)));
}

TEST(SavedTensorHooks, OfTheInnermostScopeGetAll) {
  Noting outer("outer");
  Noting inner("inner");
  inner.notes = outer.notes;
  const at::Tensor x = leaf(2);
  const SavedTensorHooks outer_hooks(outer.pack());
  {
    const SavedTensorHooks inner_hooks(inner.pack());
    x.pow(2);
  }
  x.pow(2);
  EXPECT_THAT(*outer.notes, ElementsAre("pack inner", "pack outer"));
}

TEST(SavedTensorHooks, CanBeSwitchedOffAndBeginAgainInside) {
  Noting outer("outer");
  Noting inner("inner");
  inner.notes = outer.notes;
  const at::Tensor x = leaf(2);
  const SavedTensorHooks outer_hooks(outer.pack());
  {
    const WithoutSavedTensorHooks none;
    x.pow(2);
    EXPECT_THAT(*outer.notes, IsEmpty());
    const SavedTensorHooks inner_hooks(inner.pack());
    x.pow(2);
  }
  x.pow(2);
  EXPECT_THAT(*outer.notes, ElementsAre("pack inner", "pack outer"));
}

TEST(SavedTensorHooks, AreNotCalledForWhatTheyDoThemselves) {
  int packs = 0;
  const at::Tensor x = leaf(2);
  const auto work = [&] {
    const at::AutoGradMode with_grad(true);
    leaf(1).pow(2).sum().backward();
  };
  const SavedTensorHooks hooks([&](const at::Tensor& saved) -> Unpack {
    ++packs;
    work();
    return [&, tensor = saved.detach()] {
      work();
      return tensor;
    };
  });
  x.pow(2).sum().backward();
  EXPECT_EQ(packs, 1);
  EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 4.0)));
}

TEST(SavedTensorHooks, AreAsBeforeAfterAnException) {
  Noting noting("a");
  const at::Tensor x = leaf(2);
  const SavedTensorHooks hooks(noting.pack());
  EXPECT_THROW(
      {
        const SavedTensorHooks failing(
            [](const at::Tensor&) -> Unpack { throw std::runtime_error("full"); });
        x.pow(2);
      },
      std::runtime_error);
  x.pow(2);
  EXPECT_THAT(*noting.notes, ElementsAre("pack a"));
}

TEST(SavedTensorHooks, PassOnWhatUnpackingThrows) {
  Noting noting("a");
  const at::Tensor x = leaf(2);
  const SavedTensorHooks hooks(noting.pack());
  at::Tensor y;
  {
    const SavedTensorHooks failing([](const at::Tensor&) -> Unpack {
      return []() -> at::Tensor { throw std::out_of_range("gone"); };
    });
    y = x.pow(2).sum();
  }
  EXPECT_THROW(y.backward(), std::out_of_range);
  x.pow(2);
  EXPECT_THAT(*noting.notes, ElementsAre("pack a"));
}

TEST(SavedTensorHooks, DropWhatTheyKeepWithTheGraph) {
  const auto kept = std::make_shared<int>(0);
  const Pack pack = [&](const at::Tensor& saved) -> Unpack {
    return [kept, tensor = saved.detach()] { return tensor; };
  };
  const at::Tensor x = leaf(2);
  at::Tensor y;
  {
    const SavedTensorHooks hooks(pack);
    y = x.pow(2).sum();
  }
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(kept.use_count(), 2);
  y.backward();
  EXPECT_EQ(kept.use_count(), 1);
  {
    const SavedTensorHooks hooks(pack);
    y = x.pow(2).sum();
  }
  y = at::Tensor();
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(SavedTensorHooks, OfAnotherThreadDoNotSeeThisOnesTensors) {
  Noting noting("a");
  const SavedTensorHooks hooks(noting.pack());
  std::thread([] { leaf(2).pow(2); }).join();
  EXPECT_THAT(*noting.notes, IsEmpty());
}

/// The square; its backward runs a graph with a nested backward, `depth` levels deep.
class NestedSquare : public torch::autograd::Function<NestedSquare> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::int64_t depth) {
    context->save_for_backward({x});
    context->saved_data["depth"] = depth;
    return x * x;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    const std::int64_t depth = context->saved_data["depth"].toInt();
    const at::AutoGradMode with_grad(true);
    const at::Tensor y = depth == 0 ? x.pow(2) : apply(x, depth - 1);
    y.backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
};

TEST(SavedTensorHooks, WorkInsideANestedBackward) {
  Noting noting("a");
  const at::Tensor x = leaf(3);
  const at::Tensor y = NestedSquare::apply(x, 2).sum();
  const SavedTensorHooks hooks(noting.pack());
  y.backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 6.0)));
  EXPECT_THAT(*noting.notes,
              ElementsAre("pack a", "unpack a", "pack a", "unpack a", "pack a", "unpack a"));
}

TEST(SavedTensorHooks, EndWithTheFailureOfANestedBackward) {
  Noting noting("a");
  const at::Tensor x = leaf(3);
  const at::Tensor y = NestedSquare::apply(x, 1).sum();
  {
    const SavedTensorHooks failing(
        [](const at::Tensor&) -> Unpack { throw std::out_of_range("full"); });
    EXPECT_THROW(y.backward(), std::out_of_range);
  }
  const SavedTensorHooks hooks(noting.pack());
  x.pow(2).sum().backward();
  EXPECT_THAT(*noting.notes, ElementsAre("pack a", "unpack a"));
}

/// A scope that begins in a deep backward on torch's other thread works there, too.
TEST(SavedTensorHooks, OfACallerAreNotSeenBeyondTheDepthAtWhichTorchChangesThreads) {
  Noting noting("a");
  const at::Tensor x = leaf(3);
  const at::Tensor y = NestedSquare::apply(x, 70).sum();
  const SavedTensorHooks hooks(noting.pack());
  y.backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 6.0)));
  EXPECT_LT(noting.notes->size(), 2 * 70u);
}

}  // namespace
}  // namespace lockstep
