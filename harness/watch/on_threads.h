#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/watch/blocked_signals.h"

namespace lockstep {

/// Calls `work` once with each of `numbers`, on up to `threads` threads including this one, and
/// waits for all. Of the calls that throw, the exception of the lowest number is thrown again. With
/// fewer threads if the system has no more.
template <class Work>
void on_threads(std::size_t threads, const std::vector<std::size_t>& numbers, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t of_error = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < numbers.size(); i = next++) {
      try {
        work(numbers[i]);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (error && of_error < numbers[i]) continue;
        error = std::current_exception();
        of_error = numbers[i];
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      const BlockedSignals blocked;
      while (others.size() + 1 < threads && others.size() + 1 < numbers.size()) {
        others.emplace_back(run);
      }
    } catch (const std::system_error&) {  // no more threads
    }
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep
