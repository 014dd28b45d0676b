#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

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

/// Forwards every call to `inner` and notes every collective in a log: what was asked for before
/// the call, how it ended when its work ends. Changes nothing: same arguments, same works, same
/// exceptions. Groups split off or merged are recorded as well.
class RecordingBackend : public c10d::Backend {
 public:
  RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner,
                   std::shared_ptr<CollectiveRecorder> recorder,
                   std::shared_ptr<RecordedGroup> group);

  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(TensorLists& outputs, Tensors& inputs,
                 const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                     std::vector<int64_t>& input_sizes,
                     const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  void startCoalescing() override;
  Work endCoalescing() override;

  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& options,
                                          const int& rank, const int& size) override;
  c10::intrusive_ptr<c10d::Backend> shrink(const std::vector<int64_t>& excluded, int flags,
                                           const c10::intrusive_ptr<Options>& options) override;

  bool supportsSplitting() const override;
  bool supportsCoalescing() const override;
  bool supportsTimeEstimation() const override;
  bool supportsShrinking() const override;
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  const std::string getBackendName() const override;
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setSequenceNumberForGroup() override;
  uint64_t getSequenceNumberForGroup() override;
  void registerOnCompletionHook(
      std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override;
  void setGroupUid(const std::string& uid) override;
  void eagerConnectSingleDevice(at::Device device) override;
  c10d::ErrorType getError() override;
  std::shared_ptr<c10::Allocator> getMemAllocator() override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  void abort() override;
  void shutdown() override;

 private:
  c10::intrusive_ptr<c10d::Backend> record_too(c10::intrusive_ptr<c10d::Backend> backend) const;

  template <class Call>
  Work record(Collective collective, const Call& call);

  template <class Call>
  Work record_peer(Collective collective, const Call& call);

  Collective describe(c10d::OpType operation, at::TensorList tensors) const;

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::shared_ptr<CollectiveRecorder> recorder_;
  std::shared_ptr<RecordedGroup> group_;
};

}  // namespace lockstep
