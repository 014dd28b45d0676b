#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "harness/comm/collective_recorder.h"
#include "harness/record/collective_log.h"

namespace lockstep {

/// Forwards every call to `inner` and logs every collective: its arguments before the call, its
/// result when its work ends. Arguments, works and exceptions are unchanged. Split and merged
/// groups are recorded as well.
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
  /// Overrides that of releases of torch that have it (harness/comm/single_collectives.h).
  Work gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
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

  Collective collective_of(c10d::OpType operation, at::TensorList tensors) const;

  /// The tensors that ranks must agree on in a gathered or scattered list with one tensor per rank.
  const Tensors& comparable(const TensorLists& lists, const Tensors& part) const;

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::shared_ptr<CollectiveRecorder> recorder_;
  std::shared_ptr<RecordedGroup> group_;
  /// On a GPU a work's own future completes when the call is queued. Another one reports its end:
  /// NCCL's, by its watchdog.
  bool is_queued_;
};

}  // namespace lockstep
