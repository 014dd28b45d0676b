#include "harness/watch/work_in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

std::vector<int> counted(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(WorkInOrder, IsDoneAtOnceWhileNothingWaits) {
  WorkInOrder work;
  std::thread::id on;
  work.add([&] { on = std::this_thread::get_id(); });
  EXPECT_EQ(on, std::this_thread::get_id());
  EXPECT_THROW(work.add([] { throw std::runtime_error("now"); }), std::runtime_error);
  work.add([] {});  // that was the caller's
}

TEST(WorkInOrder, IsNeverOvertaken) {
  constexpr int kCount = 2000;
  WorkInOrder work;
  std::atomic<int> ready = -1;
  std::vector<int> done;  // by two threads, never at the same time
  for (int i = 0; i < kCount; ++i) {
    const auto one = [&done, i] { done.push_back(i); };
    if (i % 7 == 0) {
      work.add_once([&ready, i] { return ready >= i; }, one);
    } else {
      work.add(one);
    }
    if (i % 50 == 49) ready = i - 20;
    if (i % 500 == 499) {
      ready = i;
      EXPECT_TRUE(work.finish());
      EXPECT_EQ(done, counted(i + 1));
    }
  }
}

TEST(WorkInOrder, GoesOnWithoutAnotherCall) {
  WorkInOrder work;
  std::atomic<bool> is_ready = false;
  std::atomic<bool> is_done = false;
  work.add_once([&] { return is_ready.load(); }, [] {});
  work.add([&] { is_done = true; });
  EXPECT_FALSE(work.is_idle());
  EXPECT_FALSE(is_done);
  is_ready = true;
  while (!is_done) std::this_thread::yield();
}

TEST(WorkInOrder, EndsWithTheFirstFailure) {
  WorkInOrder work;
  std::atomic<bool> is_ready = false;
  std::atomic<bool> is_overtaken = false;
  work.add_once([&] { return is_ready.load(); }, [] { throw std::runtime_error("first"); });
  work.add([&] { is_overtaken = true; });
  is_ready = true;
  for (int i = 0; i < 2; ++i) {
    try {
      work.finish();
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
  }
  EXPECT_THROW(work.add([&] { is_overtaken = true; }), std::runtime_error);
  EXPECT_THROW(work.add_once([] { return true; }, [] {}), std::runtime_error);
  EXPECT_FALSE(is_overtaken);
}

TEST(WorkInOrder, FailsIfWhatItWaitsForFails) {
  WorkInOrder work;
  work.add_once([]() -> bool { throw std::runtime_error("no answer"); }, [] { ADD_FAILURE(); });
  EXPECT_THROW(work.finish(), std::runtime_error);
}

TEST(WorkInOrder, IsDroppedAtTheLimitAndAtTheEnd) {
  std::atomic<bool> is_done = false;
  const auto never = [] { return false; };
  {
    WorkInOrder work;
    EXPECT_TRUE(work.finish(milliseconds(0)));
    work.add_once(never, [&] { is_done = true; });
    EXPECT_FALSE(work.finish(milliseconds(30)));
    bool is_at_once = false;
    work.add([&] { is_at_once = true; });
    EXPECT_TRUE(is_at_once);
    bool is_done_again = false;
    work.add_once([] { return true; }, [&] { is_done_again = true; });
    EXPECT_TRUE(work.finish());
    EXPECT_TRUE(is_done_again);
  }
  {
    WorkInOrder work;
    work.add_once(never, [&] { is_done = true; });
    work.add([&] { is_done = true; });
  }
  EXPECT_FALSE(is_done);
}

}  // namespace
}  // namespace lockstep
