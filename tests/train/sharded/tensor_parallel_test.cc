#include "harness/train/sharded/tensor_parallel.h"

#include <gtest/gtest.h>

#include "reports/base/error.h"
#include "tests/train/helpers.h"
#include "tests/train/on_ranks.h"

namespace lockstep {
namespace {

TEST(TensorParallel, KeepsPartsInPlaceAndTheRestWhole) {
  expect_on_ranks(3, [](ProcessGroup& group) {
    Linear layer(6, 3, cpu_generator(5));
    const at::Tensor whole = layer.weight().detach().clone();
    const TensorParallel sharded(layer, {{"weight", 1}}, group);
    const std::vector<NamedShard> shards = sharded.shards();
    const at::Tensor part = whole.narrow(1, group.rank() * 2, 2);
    const std::vector<std::int64_t> offset{0, group.rank() * 2};
    return at::equal(layer.weight(), part) && layer.weight().is_leaf() &&
           layer.forward(normal({4, 2}, 1)).size(1) == 3 && shards[0].place.offset == offset &&
           shards[0].place.global_shape == std::vector<std::int64_t>{3, 6} &&
           shards[1].place.global_shape.empty() && sharded.whole_parameters().size() == 1;
  });
}

TEST(TensorParallel, RefusesANameThatTheModelLacks) {
  expect_on_ranks(3, [](ProcessGroup& group) {
    Linear layer(6, 3, cpu_generator(5));
    try {
      const TensorParallel sharded(layer, {{"weights", 1}}, group);
    } catch (const Error&) {
      return true;
    }
    return false;
  });
}

}  // namespace
}  // namespace lockstep
