#include "harness/train/autograd/activation_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

at::Tensor bytes(std::int64_t size) { return at::empty({size}, at::kByte); }

TEST(ActivationMemory, CountsWhatIsAllocatedAndFreed) {
  const ActivationMemory memory;
  EXPECT_EQ(memory.live(), 0);
  at::Tensor some = bytes(1000);
  EXPECT_EQ(memory.live(), 1000);
  at::Tensor more = at::empty({10}, at::kDouble);
  EXPECT_EQ(memory.live(), 1080);
  some = at::Tensor();
  EXPECT_EQ(memory.live(), 80);
  more = at::Tensor();
  EXPECT_EQ(memory.live(), 0);
  EXPECT_EQ(memory.peak(), 1080);
  EXPECT_EQ(memory.host_peak(), 0);
}

TEST(ActivationMemory, CountsAStorageOnceHoweverManyViewsItHas) {
  const ActivationMemory memory;
  at::Tensor whole = bytes(100);
  const at::Tensor view = whole.narrow(0, 10, 10);
  EXPECT_EQ(memory.live(), 100);
  whole = at::Tensor();
  EXPECT_EQ(memory.live(), 100);
}

TEST(ActivationMemory, DoesNotCountWhatWasThereBefore) {
  at::Tensor before = bytes(100);
  const ActivationMemory memory;
  before = at::Tensor();
  EXPECT_EQ(memory.live(), 0);
  EXPECT_EQ(memory.peak(), 0);
}

TEST(ActivationMemory, EndsBeforeTheTensorsThatItCounted) {
  at::Tensor some;
  {
    const ActivationMemory memory;
    some = bytes(100);
  }
  some.fill_(7);
  const ActivationMemory later;
  some = at::Tensor();
  EXPECT_EQ(later.live(), 0);
  EXPECT_EQ(later.peak(), 0);
}

TEST(ActivationMemory, CountsInEveryObjectThatLives) {
  const ActivationMemory outer;
  at::Tensor first = bytes(1);
  at::Tensor second;
  {
    const ActivationMemory inner;
    second = bytes(10);
    EXPECT_EQ(inner.live(), 10);
    EXPECT_EQ(outer.live(), 11);
    first = at::Tensor();
    EXPECT_EQ(inner.live(), 10);
    EXPECT_EQ(outer.live(), 10);
  }
  const at::Tensor third = bytes(100);
  EXPECT_EQ(outer.live(), 110);
  second = at::Tensor();
  EXPECT_EQ(outer.live(), 100);
  EXPECT_EQ(outer.peak(), 110);
}

TEST(ActivationMemory, CountsHostMemoryApart) {
  const ActivationMemory memory;
  const at::Tensor some = bytes(1);
  at::Tensor kept;
  {
    const HostMemory host;
    { const HostMemory inner; }
    kept = bytes(10);
  }
  const at::Tensor more = bytes(100);
  EXPECT_EQ(memory.live(), 101);
  EXPECT_EQ(memory.host_live(), 10);
  kept = at::Tensor();
  EXPECT_EQ(memory.live(), 101);
  EXPECT_EQ(memory.host_live(), 0);
  EXPECT_EQ(memory.host_peak(), 10);
  EXPECT_EQ(memory.peak(), 101);
}

TEST(ActivationMemory, CountsItsThreadOnlyButFreesOfAny) {
  const ActivationMemory memory;
  at::Tensor mine = bytes(10);
  at::Tensor theirs;
  std::thread([&] {
    theirs = bytes(100);
    mine = at::Tensor();
  }).join();
  EXPECT_EQ(memory.live(), 0);
  EXPECT_EQ(memory.peak(), 10);
}

TEST(ActivationMemory, OfTwoThreadsDoNotMix) {
  const ActivationMemory mine;
  const at::Tensor some = bytes(1);
  std::thread([] {
    const ActivationMemory theirs;
    for (int i = 0; i < 1000; ++i) bytes(10);
    EXPECT_EQ(theirs.peak(), 10);
    EXPECT_EQ(theirs.live(), 0);
  }).join();
  EXPECT_EQ(mine.peak(), 1);
}

TEST(ActivationMemory, IsFreedOnManyThreadsAtOnce) {
  const ActivationMemory memory;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 500; ++i) tensors.push_back(bytes(8));
    threads.emplace_back([tensors = std::move(tensors)]() mutable { tensors.clear(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.live(), 0);
}

TEST(ActivationMemory, CountsRawAllocationsToo) {
  const ActivationMemory memory;
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  void* const raw = allocator.raw_allocate(64);
  EXPECT_EQ(memory.live(), 64);
  allocator.raw_deallocate(raw);
  EXPECT_EQ(memory.live(), 0);
  c10::DataPtr data = allocator.allocate(32);
  EXPECT_TRUE(allocator.is_simple_data_ptr(data));
  const c10::DeleterFnPtr free = data.get_deleter();
  EXPECT_EQ(free, allocator.raw_deleter());
  free(data.release_context());
  EXPECT_EQ(memory.live(), 0);
  EXPECT_FALSE(allocator.allocate(0));
}

TEST(ActivationMemory, ClonesDataAsTorchDoes) {
  c10::Allocator* allocator = nullptr;
  {
    const ActivationMemory memory;
    allocator = c10::GetCPUAllocator();
    const at::Tensor ones = at::ones({16}, at::kByte);
    const c10::DataPtr copy = allocator->clone(ones.const_data_ptr(), 16);
    EXPECT_EQ(static_cast<const char*>(copy.get())[15], 1);
    EXPECT_EQ(memory.live(), 32);
  }
  EXPECT_EQ(c10::GetCPUAllocator(), allocator);
}

TEST(ActivationMemory, CountsATensorThatGrowsInPlace) {
  const ActivationMemory memory;
  at::Tensor some = bytes(10);
  some.resize_({50});
  EXPECT_EQ(memory.live(), 50);
  EXPECT_EQ(memory.peak(), 60);
}

}  // namespace
}  // namespace lockstep
