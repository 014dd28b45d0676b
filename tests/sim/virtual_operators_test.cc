// Results of virtual devices have the bits of the CPU; the exceptions are tested here, too.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/sim/virtual_devices.h"
#include "harness/train/autograd/autocast.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/sharded/storage_memory.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, cpu_generator(seed), at::TensorOptions());
}

at::Tensor numbers(std::int64_t below, at::IntArrayRef shape, const at::Tensor& like) {
  return at::randint(0, below, shape, cpu_generator(9), at::TensorOptions(at::kLong))
      .to(like.device());
}

/// A function of two leaves: a matrix [6, 8] and a weight [8, 8].
struct Operator {
  std::string name;
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)> compute;
};

std::ostream& operator<<(std::ostream& out, const Operator& entry) { return out << entry.name; }

const std::vector<Operator> kOperators{
    {"linear", [](auto& x, auto& w) { return at::linear(x, w, w.select(0, 0)); }},
    {"batched_linear",
     [](auto& x, auto& w) {
       return at::linear(x.view({2, 3, 8}), w);
     }},
    {"matmul",
     [](auto& x, auto& w) {
       return x.view({2, 3, 8}).matmul(w.expand({2, 8, 8}));
     }},
    {"products_in_autocast",
     [](auto& x, auto& w) {
       const AutocastScope autocast(at::kBFloat16);
       return (at::linear(x, w) + x.matmul(w) * x.mm(w)).tanh();
     }},
    {"gelu", [](auto& x, auto&) { return at::gelu(x); }},
    {"silu", [](auto& x, auto&) { return at::silu(x); }},
    {"tanh_exp_log", [](auto& x, auto&) { return (at::tanh(x).exp() + 1).log(); }},
    {"layer_norm",
     [](auto& x, auto& w) { return at::layer_norm(x, {8}, w.select(0, 0), w.select(0, 1)); }},
    {"rms_norm_by_hand",
     [](auto& x, auto& w) {
       return x * at::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + 1e-6) * w.select(0, 0);
     }},
    {"rms_norm", [](auto& x, auto& w) { return at::rms_norm(x, {8}, w.select(0, 0), 1e-6); }},
    {"batch_norm",
     [](auto& x, auto& w) {
       const at::Tensor mean = at::zeros({8}, x.options()), var = at::ones({8}, x.options());
       return at::batch_norm(x, w.select(0, 0), w.select(0, 1), mean, var, true, 0.1, 1e-5, true) +
              mean + var;
     }},
    {"softmax", [](auto& x, auto&) { return at::softmax(x, -1); }},
    {"masked_softmax",
     [](auto& x, auto&) {
       const at::Tensor mask = at::ones({6, 8}, x.options()).triu(1).to(at::kBool);
       return at::softmax(x.masked_fill(mask, -1e9), -1);
     }},
    {"cross_entropy", [](auto& x, auto&) { return at::cross_entropy_loss(x, numbers(8, {6}, x)); }},
    {"nll_loss",
     [](auto& x, auto&) {
       return at::nll_loss(at::log_softmax(x, -1), numbers(8, {6}, x), {}, at::Reduction::Sum);
     }},
    {"mse_loss", [](auto& x, auto& w) { return at::mse_loss(x, w.narrow(0, 0, 6)); }},
    {"embedding",
     [](auto& x, auto& w) {
       return at::embedding(w, numbers(8, {3, 5}, x));
     }},
    {"cat",
     [](auto& x, auto& w) {
       return at::cat({x, w, x}, 0);
     }},
    {"stack",
     [](auto& x, auto&) {
       return at::stack({x, x.mul(2)}, 1);
     }},
    {"transpose_permute_flatten",
     [](auto& x, auto&) {
       return x.t().reshape({2, 4, 6}).permute({2, 0, 1}).flatten(1) * 2;
     }},
    {"chunk", [](auto& x, auto&) { return x.chunk(2, 1)[0].mul(x.chunk(2, 1)[1]); }},
    {"index_select", [](auto& x, auto& w) { return w.index_select(0, numbers(8, {5}, x)); }},
    {"index", [](auto& x, auto& w) { return w.index({numbers(8, {7}, x)}); }},
    {"index_by_cpu",
     [](auto& x, auto&) {
       return x.index({at::tensor({1, 0, 5, 1})});
     }},
    {"gather",
     [](auto& x, auto&) {
       return x.gather(1, numbers(8, {6, 2}, x));
     }},
    {"index_add", [](auto& x, auto& w) { return w.index_add(0, numbers(8, {6}, x), x, 0.5); }},
    {"where", [](auto& x, auto&) { return at::where(x > 0, x, x * 0.1); }},
    {"sums", [](auto& x, auto&) { return x.sum() + x.sum(0).mean() + x.std(1).max(); }},
    {"norm", [](auto& x, auto&) { return at::norm(x, 2); }},
    {"half", [](auto& x, auto& w) { return at::linear(x.to(at::kBFloat16), w.to(at::kBFloat16)); }},
    {"conv1d",
     [](auto& x, auto& w) {
       return at::conv1d(x.view({2, 3, 8}), w.flatten().narrow(0, 0, 48).view({4, 3, 4}),
                         w.select(0, 7).narrow(0, 0, 4));
     }},
    {"conv2d",
     [](auto& x, auto& w) {
       return at::conv2d(x.view({2, 1, 4, 6}), w.view({4, 1, 4, 4}));
     }},
    {"dropout_by_bernoulli",
     [](auto& x, auto&) {
       return x * at::empty_like(x).bernoulli_(0.5, cpu_generator(4)).div_(0.5);
     }},
    {"in_place_on_views",
     [](auto& x, auto&) {
       at::Tensor y = x.clone();
       y.narrow(0, 1, 2).mul_(3);
       y.select(1, 2).copy_(y.select(1, 3));
       return y;
     }},
};

class EveryOperator : public testing::TestWithParam<Operator> {
 protected:
  EveryOperator() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 2});
  }

  Tensors results_on(at::Device device) const {
    const at::Tensor x = drawn({6, 8}, 1).to(device).requires_grad_();
    const at::Tensor w = drawn({8, 8}, 2).to(device).requires_grad_();
    const at::Tensor result = GetParam().compute(x, w);
    EXPECT_EQ(result.device(), device);
    result.to(at::kFloat).pow(2).sum().backward();
    Tensors all{result.detach()};
    for (const at::Tensor& leaf : {x, w}) {
      if (leaf.grad().defined()) all.push_back(leaf.grad());
    }
    for (at::Tensor& tensor : all) tensor = tensor.cpu();
    return all;
  }
};

TEST_P(EveryOperator, HasTheBitsOfTheCpuAndLeavesNoMemory) {
  const Tensors here = results_on(at::kCPU);
  const Tensors there = results_on(virtual_device(1));
  ASSERT_EQ(here.size(), there.size());
  EXPECT_GE(here.size(), 2U);
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(here[i].strides(), there[i].strides()) << i;
    EXPECT_TRUE(at::equal(here[i], there[i])) << i;
  }
  EXPECT_EQ(virtual_memory(1).live, 0);
  EXPECT_EQ(virtual_memory(0).peak, 0) << "what is on one device leaves the others alone";
}

INSTANTIATE_TEST_SUITE_P(Of, EveryOperator, testing::ValuesIn(kOperators),
                         [](const auto& entry) { return entry.param.name; });

class VirtualModels : public testing::Test {
 protected:
  VirtualModels() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 2});
  }

  /// Parameters and gradients after some steps, on the CPU.
  static Tensors trained(Module& model, const std::string& optimizer_name,
                         const std::function<at::Tensor(at::Generator& generator)>& loss) {
    const auto optimizer = make_optimizer(optimizer_name, model.parameters(), 0.01);
    at::Generator generator = cpu_generator(6);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      loss(generator).backward();
      optimizer->step();
    }
    Tensors all;
    for (const at::Tensor& parameter : model.parameters()) {
      all.push_back(parameter.detach().cpu());
      if (parameter.grad().defined()) all.push_back(parameter.grad().cpu());
    }
    return all;
  }

  static void expect_equal(const Tensors& left, const Tensors& right) {
    ASSERT_EQ(left.size(), right.size());
    for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(at::equal(left[i], right[i])) << i;
    EXPECT_EQ(virtual_memory(0).live, 0);
    EXPECT_EQ(virtual_memory(1).live, 0);
  }
};

TEST_F(VirtualModels, ATransformerTrainsToTheBitsOfTheCpu) {
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const auto trained_on = [&](at::Device device) {
      TimeSeriesTransformer model({}, cpu_generator(5));
      model.to(device);
      return trained(model, optimizer, [&](at::Generator& generator) {
        const at::Tensor input = at::randn({6, 64}, generator, at::TensorOptions()).to(device);
        const at::Tensor labels =
            at::randint(0, 4, {6}, generator, at::TensorOptions(at::kLong)).to(device);
        return at::cross_entropy_loss(model(input), labels);
      });
    };
    expect_equal(trained_on(at::kCPU), trained_on(virtual_device(1)));
  }
}

TEST_F(VirtualModels, AVisionLanguageModelTrainsToTheBitsOfTheCpu) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const auto trained_on = [&](at::Device device) {
      VisionLanguageModel model({.lora = LoraOptions{.draws_b = true}}, cpu_generator(5));
      model.to(dtype);
      model.to(device);
      return trained(model, "adamw", [&](at::Generator& generator) {
        const at::Tensor image =
            at::randn({3, 1, 8, 8}, generator, at::TensorOptions()).to(dtype).to(device);
        const at::Tensor tokens =
            at::randint(0, 32, {3, 5}, generator, at::TensorOptions(at::kLong)).to(device);
        return next_token_loss(model.forward(image, tokens), tokens);
      });
    };
    expect_equal(trained_on(at::kCPU), trained_on(virtual_device(1)));
  }
}

TEST_F(VirtualModels, AutocastCastsProductsAndOnlyWhileItIsOn) {
  const at::Tensor x = drawn({6, 8}, 1).to(virtual_device(0));
  {
    const AutocastScope autocast(at::kBFloat16);
    EXPECT_EQ(at::mm(x, x.t()).scalar_type(), at::kBFloat16);
    EXPECT_EQ((x * x).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(at::mm(x, x.t()).scalar_type(), at::kFloat);
}

TEST_F(VirtualModels, AViewOfMemoryThatWasReleasedIsRefusedInTorchsWords) {
  for (const at::Device device : {at::Device(at::kCPU), virtual_device(0)}) {
    const at::Tensor matrix = drawn({6, 8}, 1).to(device);
    release_storage(matrix);
    EXPECT_THAT([&] { matrix.t(); }, testing::ThrowsMessage<c10::Error>(testing::HasSubstr(
                                         "are out of bounds for storage of size 0")))
        << device;
  }
}

// Composite code of torch chooses the kernel of attention by device type.
/// A known exception: its bits may differ.
TEST_F(VirtualModels, ScaledDotProductAttentionIsCloseToTheCpu) {
  const at::Tensor q = drawn({2, 2, 16, 8}, 1);
  const at::Tensor there = q.to(virtual_device(0));
  const at::Tensor expected = at::scaled_dot_product_attention(q, q, q);
  const at::Tensor result = at::scaled_dot_product_attention(there, there, there).cpu();
  EXPECT_TRUE(at::allclose(result, expected, 1e-4, 1e-5));
}

TEST_F(VirtualModels, DropoutDrawsWhatTheCpuDraws) {
  const auto dropped = [](at::Device device) {
    at::manual_seed(3);
    const at::Tensor x = drawn({6, 8}, 1).to(device).requires_grad_();
    const at::Tensor result = at::dropout(x, 0.3, /*train=*/true);
    result.sum().backward();
    return Tensors{result.detach().cpu(), x.grad().cpu()};
  };
  expect_equal(dropped(at::kCPU), dropped(virtual_device(1)));
}

}  // namespace
}  // namespace lockstep
