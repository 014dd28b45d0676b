#include "harness/train/loop/checkpoint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "harness/record/snapshots.h"
#include "harness/train/nn/transformer.h"
#include "reports/base/error.h"
#include "tests/temporary_folder.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A parameter of every kind that a checkpoint could change.
struct Model : Module {
  explicit Model(double value)
      : linear(register_module("linear", std::make_shared<Linear>(3, 2, cpu_generator(1)))),
        norm(register_module("norm", std::make_shared<BatchNorm1d>(2))) {
    register_parameter("scale", at::full({}, value));
    register_parameter("none", at::zeros({0, 3}));
    register_parameter("half", at::full({5}, value, at::kBFloat16));
    register_parameter("turned", at::randn({2, 3}, cpu_generator(2), at::kDouble).t() * value);
    register_buffer("count", at::full({}, value, at::kLong));
    odd = register_buffer("odd", at::full({2}, value));
  }
  at::Tensor forward(const at::Tensor& input) override {
    return norm->forward(linear->forward(input));
  }

  std::shared_ptr<Linear> linear;
  std::shared_ptr<BatchNorm1d> norm;
  at::Tensor odd;
};

/// A model that differs in its names, shapes or dtypes.
struct Small : Module {
  Small(const std::string& name, const at::Tensor& value) { register_buffer(name, value); }
  at::Tensor forward(const at::Tensor& input) override { return input; }
};

void expect_same_bits(const std::vector<NamedTensor>& left, const std::vector<NamedTensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(bytes_of(left[i].tensor), bytes_of(right[i].tensor)) << left[i].name;
  }
}

class Checkpoint : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "model.safetensors"; }

  /// The sentence with which `module` rejects the file.
  std::string refusal(Module& module) const {
    try {
      load_checkpoint(module, path());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      return error.what();
    }
    return "no error";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Checkpoint, ComesBackBitForBit) {
  Model saved(-2.5);
  saved.forward(at::randn({4, 3}, cpu_generator(3), at::TensorOptions()));
  saved.odd[0].fill_(-0.0);
  saved.odd[1].fill_(std::numeric_limits<double>::quiet_NaN());
  save_checkpoint(saved, path());
  Model loaded(7);
  load_checkpoint(loaded, path());
  expect_same_bits(saved.named_parameters(), loaded.named_parameters());
  expect_same_bits(saved.named_buffers(), loaded.named_buffers());
}

TEST_F(Checkpoint, HoldsParametersAndBuffersByName) {
  save_checkpoint(Model(1), path());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : read_safetensors(path())) names.push_back(name);
  EXPECT_THAT(names,
              testing::ElementsAre("count", "half", "linear.bias", "linear.weight", "none",
                                   "norm.bias", "norm.num_batches_tracked", "norm.running_mean",
                                   "norm.running_var", "norm.weight", "odd", "scale", "turned"));
}

TEST_F(Checkpoint, LeavesTheTensorsAndTheirGradientsWhatTheyWere) {
  save_checkpoint(Model(1), path());
  Model loaded(7);
  const at::Tensor scale = loaded.named_parameters()[0].tensor;
  scale.mutable_grad() = at::full({}, 3.0);
  load_checkpoint(loaded, path());
  EXPECT_EQ(scale.item<double>(), 1);
  EXPECT_TRUE(loaded.named_parameters()[0].tensor.is_same(scale));
  EXPECT_TRUE(scale.is_leaf() && scale.requires_grad());
  EXPECT_EQ(scale.grad().item<double>(), 3);
}

TEST_F(Checkpoint, OverwritesAnOlderOne) {
  save_checkpoint(Small("a", at::zeros({2})), path());
  save_checkpoint(Small("a", at::full({2}, 5.0)), path());
  Small loaded("a", at::zeros({2}));
  load_checkpoint(loaded, path());
  EXPECT_TRUE(at::equal(loaded.buffers()[0], at::full({2}, 5.0)));
}

TEST_F(Checkpoint, TellsTheTensorThatIsMissing) {
  save_checkpoint(Small("a", at::zeros({2})), path());
  Small other("layers.0.weight", at::zeros({2}));
  EXPECT_THAT(refusal(other),
              AllOf(HasSubstr(path().string()),
                    HasSubstr("'layers.0.weight', float32 of shape [2], found nothing")));
}

TEST_F(Checkpoint, TellsTheTensorOfAnotherShape) {
  save_checkpoint(Small("a", at::zeros({2, 3})), path());
  Small other("a", at::zeros({3, 2}));
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("'a', float32 of shape [3, 2]"),
                                    HasSubstr("found 'float32 of shape [2, 3]'")));
}

TEST_F(Checkpoint, TellsTheTensorOfAnotherDtype) {
  save_checkpoint(Small("a", at::zeros({2}, at::kHalf)), path());
  Small other("a", at::zeros({2}, at::kBFloat16));
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("'a', bfloat16 of shape [2]"),
                                    HasSubstr("found 'float16 of shape [2]'")));
}

TEST_F(Checkpoint, TellsTheTensorThatTheModuleDoesNotHave) {
  save_checkpoint(Model(1), path());
  Model loaded(7);
  auto file = read_safetensors(path());
  file["more"] = file.at("scale");
  write_safetensors(path(), file);
  EXPECT_THAT(refusal(loaded), HasSubstr("expected tensors of the module, found 'more'"));
}

TEST_F(Checkpoint, ChangesNothingWhereItIsRefused) {
  save_checkpoint(Model(1), path());
  auto file = read_safetensors(path());
  file.erase("turned");
  write_safetensors(path(), file);
  Model loaded(7);
  EXPECT_THAT(refusal(loaded), HasSubstr("'turned'"));
  expect_same_bits(loaded.named_parameters(), Model(7).named_parameters());
}

TEST_F(Checkpoint, TellsAFileThatIsNotThere) {
  Model model(1);
  EXPECT_THAT(refusal(model), HasSubstr(path().string()));
}

TEST_F(Checkpoint, TellsAFolderThatIsNotThere) {
  EXPECT_THROW(save_checkpoint(Model(1), path() / "more" / "model.safetensors"), Error);
}

TEST_F(Checkpoint, RefusesATensorWithoutBytes) {
  const Small model("a", at::empty({2}, at::TensorOptions().device(at::kMeta)));
  EXPECT_THROW(save_checkpoint(model, path()), Error);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace lockstep
