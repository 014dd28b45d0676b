#include "harness/record/interned.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "harness/record/compact_map.h"
#include "harness/record/tensor_table.h"

namespace lockstep {
namespace {

using Text = Interned<std::string>;

TEST(Interned, StoresAValueOnce) {
  const std::string name = "layers.0.attention.projection.weight";
  const Text one = name;
  const Text other = std::string_view(name);
  EXPECT_EQ(&*one, &*other);
  EXPECT_EQ(one, other);
  EXPECT_NE(one, Text("layers.1"));
  EXPECT_EQ(sizeof(one), 4U);
  EXPECT_EQ(*Text(), "");
  EXPECT_EQ(Text(), Text(""));
}

/// A record must not depend on where values lie.
TEST(Interned, IsOrderedByItsValue) {
  EXPECT_LT(Text("b"), Text("c"));
  EXPECT_LT(Text("a"), Text("b")) << "stored later";
  EXPECT_LT((Interned<Shape>{2, 3}), (Interned<Shape>{2, 4}));
  EXPECT_EQ((Interned<Shape>{2, 3}), (Interned<Shape>(Shape{2, 3})));
}

TEST(Interned, StandsForItsValue) {
  Text name = "weight";
  const Text before = name;
  name = name + "_orig";
  EXPECT_EQ(fmt::format("{:>12}", name), " weight_orig");
  EXPECT_EQ(before, "weight") << "those that hold the former value keep it";
  const Interned<Shape> shape{4, 2};
  EXPECT_EQ(shape.size(), 2U);
  EXPECT_EQ(shape[0] * shape[1], 8);
  EXPECT_FALSE(shape.empty());
}

TEST(Interned, StandsForItsValueHoweverManyThereAre) {
  std::vector<Interned<Shape>> shapes;
  for (std::int64_t i = 0; i < 3000; ++i) shapes.push_back(Shape{i, 1 - i});
  for (std::int64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(shapes[static_cast<std::size_t>(i)], (Shape{i, 1 - i}));
  }
}

TEST(Interned, IsStoredByManyThreadsAtOnce) {
  constexpr int kValues = 1000;
  std::vector<std::vector<const std::string*>> places(4);
  {
    std::vector<std::jthread> threads;
    for (auto& of_thread : places) {
      threads.emplace_back([&of_thread] {
        for (int i = 0; i < kValues; ++i) of_thread.push_back(&*Text(fmt::format("thread {}", i)));
      });
    }
  }
  for (const auto& of_thread : places) EXPECT_EQ(of_thread, places[0]);
}

/// A number whose key is its quotient by 3, and a hash that many keys share.
struct Third {
  struct Hash {
    std::uint64_t operator()(int key) const { return static_cast<std::uint64_t>(key % 5); }
  };

  explicit Third(int of) : third(of) {}
  int key() const { return third; }

  int third;
  int count = 0;
};

TEST(CompactMap, HasEachKeyOnceInTheOrderOfTheFirstOnes) {
  CompactMap<Third, Third::Hash> map;
  EXPECT_EQ(map.find(0), nullptr);
  const Third* const first = map.add(0).first;
  for (int i = 0; i < 300; ++i) {
    const auto [entry, is_new] = map.add(i / 3);
    EXPECT_EQ(is_new, i % 3 == 0 && i > 0);
    ++entry->count;
  }
  EXPECT_EQ(map.size(), 100U);
  EXPECT_EQ(map.find(0), first) << "entries stay where they are";
  EXPECT_EQ(map.find(100), nullptr);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(map[static_cast<std::size_t>(i)].third, i);
    EXPECT_EQ(map.find(i)->count, 3);
  }
  EXPECT_EQ(std::move(map).take().size(), 100U);
}

TEST(KnownTensors, AreStoredOnce) {
  ObservedTensor tensor;
  tensor.name = "weight";
  tensor.dtype = "float32";
  tensor.local_shape = tensor.global_shape = {3};
  tensor.offset = {0};
  KnownTensors known;
  const KnownTensor* const one = known.of(tensor);
  EXPECT_EQ(known.of(tensor), one);
  EXPECT_EQ(one->tensor, tensor);
  EXPECT_EQ(one->identity.tensor, identity_of(tensor).tensor);
  std::vector<ObservedTensor> others(4, tensor);
  others[0].phase = Phase::post_step;
  others[1].dtype = "bfloat16";
  others[2].is_summand = true;
  others[3].not_comparable = "sparse layout";
  for (const ObservedTensor& other : others) {
    EXPECT_NE(known.of(other), one);
    EXPECT_EQ(known.of(other)->tensor, other);
  }
}

}  // namespace
}  // namespace lockstep
