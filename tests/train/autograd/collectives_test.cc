#include "harness/train/autograd/collectives.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "tests/train/helpers.h"
#include "tests/train/on_ranks.h"

namespace lockstep {
namespace {

constexpr int kRanks = 3;

/// Whole numbers, different on each rank, whose sums are exact.
at::Tensor whole_of(int rank) {
  return at::arange(kRanks * 4, at::kFloat).view({kRanks * 2, 2}) * (rank + 1);
}
at::Tensor part_of(int rank) { return whole_of(0).narrow(0, rank * 2, 2) * (rank + 1); }

at::Tensor parts_of_all() {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < kRanks; ++rank) parts.push_back(part_of(rank));
  return at::cat(parts);
}
at::Tensor sum_of_wholes() { return whole_of(0) * (1 + 2 + 3); }
at::Tensor rows_of_rank(const at::Tensor& whole, int rank) { return whole.narrow(0, rank * 2, 2); }

using Differentiable = at::Tensor (*)(ProcessGroup& group, const at::Tensor& tensor);

/// Whether `differentiable` of `input` is `output`, and its backward of `gradient` is `expected`.
bool maps(ProcessGroup& group, Differentiable differentiable, const at::Tensor& input,
          const at::Tensor& output, const at::Tensor& gradient, const at::Tensor& expected) {
  const at::Tensor leaf = input.clone().requires_grad_();
  const at::Tensor result = differentiable(group, leaf * 1);
  result.backward(gradient);
  return at::equal(result, output) && at::equal(leaf.grad(), expected);
}

TEST(ConjugateCollectives, SumOverRanksAndSumTheirGradients) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const at::Tensor own = whole_of(group.rank());
    return maps(group, summed_over_ranks, own, sum_of_wholes(), own, sum_of_wholes());
  });
}

TEST(ConjugateCollectives, GatherPartsAndScatterTheSumOfTheirGradients) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const int rank = group.rank();
    return maps(group, gathered_over_ranks, part_of(rank), parts_of_all(), whole_of(rank),
                rows_of_rank(sum_of_wholes(), rank));
  });
}

TEST(ConjugateCollectives, ScatterASumAndGatherItsGradients) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const int rank = group.rank();
    return maps(group, scattered_sum_of_ranks, whole_of(rank), rows_of_rank(sum_of_wholes(), rank),
                part_of(rank), parts_of_all());
  });
}

TEST(ConjugateCollectives, CopyAndSumTheGradients) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const at::Tensor own = whole_of(group.rank());
    return maps(group, copied_to_ranks, own, own, own, sum_of_wholes());
  });
}

TEST(ConjugateCollectives, SumAndLeaveTheGradientAlone) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const at::Tensor own = whole_of(group.rank());
    return maps(group, sum_on_all_ranks, own, sum_of_wholes(), whole_of(0), whole_of(0));
  });
}

/// Rank r's rows for rank s are r and s, and come back.
TEST(ConjugateCollectives, ExchangeRowsAndReturnTheirGradients) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const at::Tensor ranks = at::arange(kRanks, at::kFloat).view({kRanks, 1});
    const at::Tensor own = ranks * 0 + group.rank();
    const at::Tensor sent = at::cat({own, ranks}, 1);
    const at::Tensor received = at::cat({ranks, own}, 1);
    return maps(group, exchanged_between_ranks, sent, received, received, sent);
  });
}

TEST(SumByHooks, SumsGradientsBeforeTheyAreAccumulated) {
  expect_on_ranks(kRanks, [](ProcessGroup& group) {
    const at::Tensor parameter = whole_of(0).clone().requires_grad_();
    sum_by_hooks(group, {parameter});
    (parameter * whole_of(group.rank())).sum().backward();
    (parameter * whole_of(group.rank())).sum().backward();
    return at::equal(parameter.grad(), sum_of_wholes() * 2);
  });
}

}  // namespace
}  // namespace lockstep
