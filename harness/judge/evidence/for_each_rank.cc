#include "harness/judge/evidence/for_each_rank.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

/// For few ranks a thread costs more than reading their files.
constexpr int kMostOfOneThread = 64;
constexpr unsigned kMostThreads = 8;  // all threads share one disk

}  // namespace

void for_each_rank(int ranks, const std::function<void(int rank)>& work) {
  if (ranks <= kMostOfOneThread) {
    for (int rank = 0; rank < ranks; ++rank) work(rank);
    return;
  }
  std::atomic<int> next = 0;
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
  const auto work_on = [&] {
    for (int rank = next++; rank < ranks; rank = next++) {
      try {
        work(rank);
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads);
    for (unsigned i = 1; i < cores; ++i) others.emplace_back(work_on);
    work_on();
  }
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace lockstep
