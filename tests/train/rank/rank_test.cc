#include "harness/train/rank/rank.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/nextafter.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "reports/base/error.h"
#include "tests/full_disk.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::Each;

/// A rank of a cell with that role, in its own folder.
class LiteralRank {
 public:
  LiteralRank(Role role, int rank, std::int64_t steps = 1, std::vector<AxisValue> sets = {}) {
    Cell cell;
    cell.sets = std::move(sets);
    cell.scenario = "literal";
    cell.variant = "one";
    cell.role = role;
    cell.world_size = 2;
    cell.steps = steps;
    RankPlacement placement;
    placement.rank = rank;
    rank_.emplace(cell, placement, folder_.path(), GroupOptions{});
  }

  Rank& operator*() { return *rank_; }
  Rank* operator->() { return &*rank_; }

 private:
  TemporaryFolder folder_;
  std::optional<Rank> rank_;
};

/// Results of the reference `perturbation` for `tensor` in each of `calls` calls in two steps.
std::vector<at::Tensor> inputs_of(int perturbation, const at::Tensor& tensor, int calls = 2) {
  LiteralRank reference(Role::reference, perturbation, 2);
  std::vector<at::Tensor> inputs;
  reference->train([&](std::int64_t) {
    for (int call = 0; call < calls; ++call) inputs.push_back(reference->input(tensor));
  });
  return inputs;
}

/// How many representable values each element moved; up is positive.
template <class Bits>
std::vector<std::int64_t> moves(const at::Tensor& from, const at::Tensor& to) {
  std::vector<std::int64_t> all;
  const auto bits = [](const at::Tensor& tensor, std::int64_t i) {
    Bits value{};
    std::memcpy(&value, static_cast<const char*>(tensor.const_data_ptr()) + i * sizeof(Bits),
                sizeof(Bits));
    const Bits magnitude = value & static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
    return static_cast<std::int64_t>(magnitude);
  };
  for (std::int64_t i = 0; i < from.numel(); ++i) all.push_back(bits(to, i) - bits(from, i));
  return all;
}

std::vector<std::int64_t> moves(const at::Tensor& from, const at::Tensor& to) {
  switch (from.element_size()) {
    case 2:
      return moves<std::uint16_t>(from, to);
    case 4:
      return moves<std::uint32_t>(from, to);
    default:
      return moves<std::uint64_t>(from, to);
  }
}

class Input : public testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor tensor_ = at::randn({8, 16}, cpu_generator(3), at::TensorOptions()).to(GetParam());
};

TEST_P(Input, OfAPerturbedReferenceMovesEveryElementByOneOrTwoUnitsInTheLastPlace) {
  for (int perturbation = 1; perturbation <= kPerturbedReferences; ++perturbation) {
    for (const at::Tensor& input : inputs_of(perturbation, tensor_)) {
      ASSERT_EQ(input.scalar_type(), tensor_.scalar_type());
      ASSERT_EQ(input.sizes(), tensor_.sizes());
      std::int64_t up = 0;
      for (const std::int64_t move : moves(tensor_, input)) {
        EXPECT_THAT(std::abs(move), testing::AnyOf(1, 2));
        up += move > 0 ? 1 : 0;
      }
      EXPECT_GT(up, 32) << "of 128 elements, about half";
      EXPECT_LT(up, 96) << "of 128 elements, about half";
    }
  }
}

TEST_P(Input, KeepsSignsAndZeros) {
  const at::Tensor values = at::tensor({-1.0, 0.0, 2.0, -0.0}).to(GetParam());
  for (const at::Tensor& input : inputs_of(1, values)) {
    EXPECT_TRUE(at::equal(input.sign(), values.sign()));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Input,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
                         [](const auto& parameter) { return c10::toString(parameter.param); });

TEST(Input, OfTheReferenceItselfIsTheTensorItself) {
  const at::Tensor tensor = at::randn({4}, cpu_generator(3), at::TensorOptions());
  for (const at::Tensor& input : inputs_of(0, tensor)) EXPECT_TRUE(input.is_same(tensor));
}

TEST(Input, OfARankThatIsNoReferenceIsTheTensorItself) {
  const at::Tensor tensor = at::randn({4}, cpu_generator(3), at::TensorOptions());
  for (const Role role : {Role::buggy, Role::fixed, Role::wrong_fix, Role::latent}) {
    LiteralRank rank(role, 1);
    rank->train([&](std::int64_t) { EXPECT_TRUE(rank->input(tensor).is_same(tensor)); });
  }
}

TEST(Input, OfIntegersAndBoolsIsTheTensorItself) {
  for (const at::ScalarType dtype : {at::kLong, at::kInt, at::kByte, at::kBool}) {
    const at::Tensor tensor = at::arange(4).to(dtype);
    for (const at::Tensor& input : inputs_of(1, tensor)) EXPECT_TRUE(input.is_same(tensor));
  }
}

TEST(Input, LeavesTheTensorAsItIs) {
  const at::Tensor tensor = at::randn({4}, cpu_generator(3), at::TensorOptions());
  const at::Tensor before = tensor.clone();
  inputs_of(1, tensor);
  EXPECT_TRUE(at::equal(tensor, before));
}

TEST(Input, IsTheSameInEveryRunAndAnotherInEveryPerturbationStepAndCall) {
  const at::Tensor tensor = at::randn({64}, cpu_generator(3), at::TensorOptions());
  std::vector<at::Tensor> all;
  for (int perturbation = 1; perturbation <= kPerturbedReferences; ++perturbation) {
    const std::vector<at::Tensor> once = inputs_of(perturbation, tensor);
    const std::vector<at::Tensor> again = inputs_of(perturbation, tensor);
    ASSERT_EQ(once.size(), 4U) << "two steps, two calls";
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i], again[i]));
    all.insert(all.end(), once.begin(), once.end());
  }
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      EXPECT_FALSE(at::equal(all[a], all[b])) << a << " and " << b;
    }
  }
}

TEST(Input, DoesNotDependOnTheCallsOfTheStepBefore) {
  const at::Tensor tensor = at::randn({64}, cpu_generator(3), at::TensorOptions());
  EXPECT_TRUE(at::equal(inputs_of(1, tensor, 1).at(1), inputs_of(1, tensor, 3).at(3)))
      << "the first call of step 2";
}

TEST(BranchPoint, CountsOnceTheBodyAskedForItsVariantByName) {
  LiteralRank rank(Role::buggy, 0);
  rank->at_branch(7);
  EXPECT_FALSE(rank->is("another"));
  EXPECT_EQ(rank->variant_line(), 0) << "no question was about this variant";
  EXPECT_TRUE(rank->is("one"));
  EXPECT_EQ(rank->variant_line(), 7);
}

TEST(BranchPoint, CountsOnceTheBodyReadAConditionThatTheVariantSets) {
  LiteralRank rank(Role::buggy, 0, 1, {{"way", "long"}, {"static_graph", "off", true}});
  rank->at_branch(7);
  EXPECT_FALSE(rank->has("static_graph"));
  EXPECT_FALSE(rank->has("unknown"));
  EXPECT_EQ(rank->variant_line(), 0) << "a default tells no variant from another";
  EXPECT_FALSE(rank->has("way", "short"));
  EXPECT_EQ(rank->variant_line(), 7);
}

TEST(BranchPoint, ThatWasNotReachedIsNone) {
  LiteralRank rank(Role::buggy, 0);
  EXPECT_TRUE(rank->is("one"));
  EXPECT_EQ(rank->variant_line(), 0);
}

TEST(BranchPoint, OfAReferenceNeedsNoQuestion) {
  LiteralRank rank(Role::reference, 0);
  rank->at_branch(7);
  EXPECT_EQ(rank->variant_line(), 7);
}

TEST(FullDisk, EndsNoTrainingAndIsThrownAtTheEnd) {
  LiteralRank rank(Role::fixed, 0, 3);
  std::int64_t last = 0;
  {
    const FullDisk full(4'096);
    rank->train([&](std::int64_t step) {
      last = step;
      rank->observer().observe(Phase::post_step, Kind::parameter, {"w", at::zeros({10'000})});
    });
  }
  EXPECT_EQ(last, 3);
  EXPECT_EQ(rank->step(), 3);
  EXPECT_EQ(rank->observer().rows(), 1);
  EXPECT_THROW(rank->finish(), Error);
}

TEST(StatusThatCannotBeWritten, EndsNoTrainingAndIsThrownAtTheEnd) {
  LiteralRank rank(Role::fixed, 0, 3);
  std::int64_t last = 0;
  rank->train([&](std::int64_t step) {
    last = step;
    std::filesystem::remove_all(rank->folder());
  });
  EXPECT_EQ(last, 3);
  try {
    rank->finish();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rank-0.status.json"));
  }
}

TEST(StepSeconds, AreAbsentBeforeAStepAndThereAfterwards) {
  LiteralRank rank(Role::fixed, 0, 3);
  EXPECT_FALSE(rank->step_seconds());
  rank->train([](std::int64_t) {});
  ASSERT_TRUE(rank->step_seconds());
  EXPECT_GE(*rank->step_seconds(), 0);
}

}  // namespace
}  // namespace lockstep
