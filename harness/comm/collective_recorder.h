#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "harness/comm/peer_logs.h"
#include "harness/comm/process_group.h"
#include "harness/record/collective_log.h"

namespace lockstep {

/// Destination of recording backends. They share it with the works they started, some of which may
/// end after the log is gone. So `close` releases the log. Thread-safe.
class CollectiveRecorder {
 public:
  /// `peers`: the logs with which each call is compared before it is made; empty: no comparison.
  CollectiveRecorder(CollectiveLog& log, std::optional<PeerLogs> peers)
      : log_(&log), peers_(std::move(peers)) {}

  void begin_step(std::int64_t step) { step_ = step; }

  /// Records a call and fills in the step, site and tag of this thread. Returns its seq. If a peer
  /// made a different call, records a failure and throws c10::DistBackendError.
  std::uint64_t enter(Collective& collective);
  void leave(std::uint64_t seq, CollectiveState state);

  /// Stops writing. Returns how many collectives have not ended. A thread that waits for a work may
  /// wake before its end is recorded, so ending works get a moment.
  int close();

  /// How many collectives have not ended.
  int pending();

 private:
  std::mutex mutex_;
  std::condition_variable has_left_;
  CollectiveLog* log_;
  std::optional<PeerLogs> peers_;
  std::atomic<std::int64_t> step_{0};
  int pending_ = 0;
};

/// While it exists, the site of this thread's calls and their tensor's description. Calls inside
/// torch have no site.
class CallContext {
 public:
  explicit CallContext(const CallSite& site);
  ~CallContext();
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

 private:
  CallSite before_;
};

/// Description of the tensor of this thread's calls (`CollectiveTag`); empty: none.
const std::string& current_tag();

/// A group whose calls are numbered across all its backends.
struct RecordedGroup {
  std::string name;
  int size = 0;
  std::atomic<std::uint64_t> calls{0};
};

/// Records that a rank joins a group, until `meet` has returned. A rank that never joins has no
/// such entry.
void record_joining(CollectiveRecorder& recorder, const RecordedGroup& group,
                    const std::function<void()>& meet);

}  // namespace lockstep
