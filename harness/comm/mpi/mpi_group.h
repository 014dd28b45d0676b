#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/comm/mpi/mpi_call.h"
#include "harness/comm/mpi/mpi_thread.h"
#include "harness/comm/mpi/mpi_work.h"

namespace lockstep {

/// Something to be done with MPI. `start` and `finish` run on the thread that calls MPI.
struct MpiTask {
  MpiCall call;
  std::uint64_t seq = 0;  ///< of the collectives, or of the messages, of this rank; from 1
  std::chrono::milliseconds limit{0};  ///< from its start
  /// Starts a call that does not block. Keeps alive what it reads and writes.
  std::function<MPI_Request(MPI_Comm comm)> start;
  /// Once it is done; may throw.
  std::function<void(const MPI_Status& status)> finish;
  c10::intrusive_ptr<MpiWork> work;
};

/// The ranks of MPI_COMM_WORLD as one group: does their tasks, collectives one after another,
/// messages beside them, each within its time limit.
///
/// Before a collective starts, all ranks tell all others what they called, and every rank checks
/// that all called the same: where they did not, all of them fail with the same words. Messages are
/// not checked beforehand; one of another size than expected fails where it arrives.
///
/// The first failure breaks the group: what is under way and what comes later fails with its words.
/// MPI has no way back from a call that was given up: where there was one, MPI is never finalized,
/// and what the call may still write to is never freed.
class MpiGroup : public std::enable_shared_from_this<MpiGroup> {
 public:
  /// Initialises MPI where that is still to be done. Blocks until all ranks of the world call it.
  static std::shared_ptr<MpiGroup> create();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Thread-safe; never blocks. How it ends is known to the task's work.
  void submit(MpiTask task);

  /// What is queued or under way fails; nothing is called any more. Does not wait for peers.
  void abandon();

  /// Healthy end: waits, up to `limit`, until all ranks are here and finalizes MPI. Returns false,
  /// and leaves MPI as it is, where they do not come or the group is broken.
  bool leave(std::chrono::milliseconds limit);

 private:
  struct Collective;
  struct Message;

  MpiGroup() = default;
  void open();
  void accept(MpiTask task);
  void start_polling();
  bool poll();
  void advance_collective();
  void advance_messages();
  void advance_exchange();
  void check_time(const MpiTask& task, std::chrono::steady_clock::time_point start,
                  const std::string& missing) const;
  void break_group(const std::string& reason, const MpiTask* culprit);
  void give_up_calls();
  void fail(MpiTask& task, const MpiTask* culprit) const;
  std::string title(const MpiTask& task) const;

  int rank_ = 0;
  int size_ = 1;
  MPI_Comm collectives_ = MPI_COMM_NULL;
  MPI_Comm exchanges_ = MPI_COMM_NULL;  ///< of what ranks are about to call
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::deque<MpiTask> waiting_;
  std::unique_ptr<Collective> current_;
  std::vector<std::unique_ptr<Message>> under_way_;
  const MpiTask* advancing_ = nullptr;  ///< whose failure an exception is
  std::string failure_;                 ///< empty: healthy
  bool is_polled_ = false;
};

}  // namespace lockstep
