#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace lockstep {

/// The one thread of this process that calls MPI: it initialises MPI, polls what is under way, and
/// finalizes it, so that MPI_THREAD_FUNNELED is enough of an implementation. Never destroyed: a
/// process may end while it waits for peers that do not come.
class MpiThread {
 public:
  /// Initialises MPI on the first call, which blocks until all ranks of the world are there. Throws
  /// c10::Error when MPI cannot be had. Thread-safe.
  static MpiThread& instance();

  /// Runs `job` on the thread, soon. It must not throw. Thread-safe.
  void post(std::function<void()> job);

  /// The same, waiting for its end; what it throws is thrown here. Not to be called by the thread.
  void run(const std::function<void()>& job);

  /// Runs `poll` again and again until it returns false. Only to be called by the thread.
  void poll_until_false(std::function<bool()> poll) { polled_.push_back(std::move(poll)); }

  /// Frees datatypes and operations, and calls MPI_Finalize, which waits for all ranks: no more MPI
  /// in this process. Does nothing, and returns false, once `forbid_finalize` was called.
  bool finalize();

  /// To be called where a call of MPI was given up: finalizing would wait for it. Only by the
  /// thread.
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
  int idle_rounds_ = 0;  ///< since something came or ended
};

}  // namespace lockstep
