#include "harness/run/large_pages.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {
namespace {

/// Whatever the kernel makes of it.
TEST(LargePages, HoldWhatTheHeapHeld) {
  constexpr std::size_t kBlocks = 10'000;
  std::vector<std::string> blocks;
  for (std::size_t i = 0; i < kBlocks; ++i)
    blocks.emplace_back(1000, static_cast<char>('a' + i % 26));
  move_heap_to_large_pages();
  for (std::size_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(blocks[i], std::string(1000, static_cast<char>('a' + i % 26))) << i;
  }
}

}  // namespace
}  // namespace lockstep
