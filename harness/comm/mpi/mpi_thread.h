#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace lockstep {

/// The single thread of this process that calls MPI: it initialises MPI, polls pending calls and
/// finalizes it. So MPI_THREAD_FUNNELED is sufficient. Never destroyed, because a process may end
/// while it waits for missing peers.
class MpiThread {
 public:
  /// Initialises MPI on the first call, which blocks until all ranks of the world are there. Throws
  /// c10::Error when MPI is unavailable. Thread-safe.
  static MpiThread& instance();

  /// Queues `job` for the thread. It must not throw. Thread-safe.
  void post(std::function<void()> job);

  /// The same, and waits for its end; rethrows its exception. Must not be called on that thread.
  void run(const std::function<void()>& job);

  /// Calls `poll` repeatedly until it returns false. Call only on that thread.
  void poll_until_false(std::function<bool()> poll) { polled_.push_back(std::move(poll)); }

  /// Frees datatypes and operations and calls MPI_Finalize, which waits for all ranks. MPI is
  /// unusable in this process afterwards. After `forbid_finalize` it does nothing and returns
  /// false.
  bool finalize();

  /// Call it after abandoning an MPI call, because finalizing would wait for that call. Only on
  /// that thread.
  void forbid_finalize() { may_finalize_ = false; }

 private:
  MpiThread();
  void loop();
  std::deque<std::function<void()>> take_jobs();
  void poll_all();

  std::mutex mutex_;
  std::condition_variable has_jobs_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::function<bool()>> polled_;
  bool may_finalize_ = true;
  int idle_rounds_ = 0;  ///< since the last arrival or completion
};

}  // namespace lockstep
