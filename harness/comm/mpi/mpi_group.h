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

/// A unit of MPI work. `start` and `finish` run on the thread that calls MPI.
struct MpiTask {
  MpiCall call;
  std::uint64_t seq = 0;               ///< among this rank's collectives, or its messages; from 1
  std::chrono::milliseconds limit{0};  ///< from its start
  /// Starts a nonblocking call. Keeps its buffers alive.
  std::function<MPI_Request(MPI_Comm comm)> start;
  /// Called on completion; may throw.
  std::function<void(const MPI_Status& status)> finish;
  c10::intrusive_ptr<MpiWork> work;
};

/// The ranks of MPI_COMM_WORLD as one group. It runs collectives one after another and messages
/// alongside them, each within its time limit.
///
/// Before a collective starts, all ranks exchange their calls, and every rank checks that they
/// match. If they do not, all ranks fail with the same message. Messages are not checked
/// beforehand; one of an unexpected size fails at its receiver.
///
/// The first failure breaks the group: pending and later calls fail with its message. MPI cannot
/// recover from an abandoned call. After one, MPI is never finalized, and buffers that the call may
/// still write are never freed.
class MpiGroup : public std::enable_shared_from_this<MpiGroup> {
 public:
  /// Initialises MPI if needed. Blocks until all ranks of the world call it.
  static std::shared_ptr<MpiGroup> create();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Thread-safe; never blocks. The task's work receives the result.
  void submit(MpiTask task);

  /// Queued and pending tasks fail, and no more MPI calls are made. Does not wait for peers.
  void abandon();

  /// Successful end: waits, up to `limit`, until all ranks are here and finalizes MPI. If they do
  /// not come or the group is broken, returns false and leaves MPI as it is.
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
  MPI_Comm exchanges_ = MPI_COMM_NULL;  ///< for the exchange of upcoming calls
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::deque<MpiTask> waiting_;
  std::unique_ptr<Collective> current_;
  std::vector<std::unique_ptr<Message>> under_way_;
  const MpiTask* advancing_ = nullptr;  ///< an exception belongs to this task
  std::string failure_;                 ///< empty: healthy
  bool is_polled_ = false;
};

}  // namespace lockstep
