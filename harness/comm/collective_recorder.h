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

/// Where recording backends write to. Shared by them and by the works they started, some of which
/// may end after the log is gone: `close` lets go of it. Thread-safe.
class CollectiveRecorder {
 public:
  /// `peers`: what calls are held against before they are made; nothing where they are not.
  CollectiveRecorder(CollectiveLog& log, std::optional<PeerLogs> peers)
      : log_(&log), peers_(std::move(peers)) {}

  void begin_step(std::int64_t step) { step_ = step; }

  /// Notes a call; step, site and tag of this thread are filled in. Returns its seq. Throws
  /// c10::DistBackendError, and notes that it failed, where a peer called something else.
  std::uint64_t enter(Collective& collective);
  void leave(std::uint64_t seq, CollectiveState state);

  /// Nothing is written any more. Returns how many collectives have not ended. Whoever waits for a
  /// work may wake before its end is noted: those that are ending are given a moment.
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

/// Where the calls of this thread are made and what they are said to be on, while it lives. What is
/// called inside of torch has no place.
class CallContext {
 public:
  explicit CallContext(const CallSite& site);
  ~CallContext();
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

 private:
  CallSite before_;
};

/// What the calls of this thread are said to be on (`CollectiveTag`); empty: nothing is said.
const std::string& current_tag();

/// A group whose calls are numbered, whichever of its backends they go to.
struct RecordedGroup {
  std::string name;
  int size = 0;
  std::atomic<std::uint64_t> calls{0};
};

/// Notes that a rank joins a group, until `meet` has returned; whoever never comes has no such
/// entry.
void record_joining(CollectiveRecorder& recorder, const RecordedGroup& group,
                    const std::function<void()>& meet);

}  // namespace lockstep
