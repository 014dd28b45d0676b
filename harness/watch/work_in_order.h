#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "harness/watch/blocked_signals.h"

namespace lockstep {

/// Does work in the order in which it was given: at once, unless something before it waits for a
/// GPU; then later, on a thread of its own. One thread gives it. Work that is done later may not
/// give any.
///
/// If work fails that is done later, no other is done, and all calls from then on throw its
/// exception.
class WorkInOrder {
 public:
  WorkInOrder() = default;

  /// What is not done by then never is.
  ~WorkInOrder() { end(); }

  WorkInOrder(const WorkInOrder&) = delete;
  WorkInOrder& operator=(const WorkInOrder&) = delete;

  void add(std::function<void()> work) {
    if (is_idle()) {
      work();
    } else {
      push({nullptr, std::move(work)});
    }
  }

  /// Does `work` once `is_ready` is true, which the thread asks now and then.
  void add_once(std::function<bool()> is_ready, std::function<void()> work) {
    require_success();
    if (!thread_.joinable()) {
      const BlockedSignals blocked;
      thread_ = std::thread([this] { run(); });
    }
    push({std::move(is_ready), std::move(work)});
  }

  /// Whether all is done.
  bool is_idle() {
    if (!thread_.joinable()) return true;
    const std::scoped_lock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return waiting_.empty();
  }

  /// Waits until all is done, `limit` at most if given: what is not done by then never is. Returns
  /// whether all is done.
  bool finish(std::optional<std::chrono::milliseconds> limit = {}) {
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return waiting_.empty(); };
    if (!limit) {
      changed_.wait(lock, is_done);
    } else if (!changed_.wait_for(lock, *limit, is_done)) {
      lock.unlock();
      end();
      return false;
    }
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

  void require_success() { is_idle(); }

 private:
  struct Item {
    std::function<bool()> is_ready;  ///< null: it is
    std::function<void()> work;
  };

  void push(Item item) {
    {
      const std::scoped_lock lock(mutex_);
      waiting_.push_back(std::move(item));
    }
    changed_.notify_all();
  }

  void end() {
    {
      const std::scoped_lock lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    waiting_.clear();
    is_ending_ = false;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
      if (is_ending_) return;
      const Item& first = waiting_.front();  // stays there, so that nothing overtakes it
      lock.unlock();
      std::exception_ptr failure;
      try {
        if (!is_ready(first)) return;
        first.work();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure) failure_ = failure;
      waiting_.pop_front();
      if (failure) waiting_.clear();
      changed_.notify_all();
    }
  }

  /// Waits until an item is ready. Returns false if all ends before.
  bool is_ready(const Item& item) {
    constexpr std::chrono::microseconds kFirst(100);
    constexpr std::chrono::microseconds kMost(2000);
    for (auto pause = kFirst; item.is_ready && !item.is_ready();
         pause = std::min(2 * pause, kMost)) {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, pause, [&] { return is_ending_; })) return false;
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> waiting_;
  std::exception_ptr failure_;
  bool is_ending_ = false;
  std::thread thread_;  ///< since something waited
};

}  // namespace lockstep
