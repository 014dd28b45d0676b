#include "harness/comm/recording_backend.h"

#include <utility>

#include "harness/comm/describe_call.h"
#include "harness/comm/future_of.h"
#include "harness/comm/recorded_work.h"
#include "harness/comm/single_collectives.h"

namespace lockstep {

using c10d::OpType;

RecordingBackend::RecordingBackend(c10::intrusive_ptr<c10d::Backend> inner,
                                   std::shared_ptr<CollectiveRecorder> recorder,
                                   std::shared_ptr<RecordedGroup> group)
    : Backend(inner->getRank(), inner->getSize()),
      inner_(std::move(inner)),
      recorder_(std::move(recorder)),
      group_(std::move(group)),
      is_queued_(inner_->getBackendName() == "nccl") {
  pg_uid_ = inner_->getGroupUid();
  pg_desc_ = inner_->getGroupDesc();
  bound_device_id_ = inner_->getBoundDeviceId();
}

Collective RecordingBackend::collective_of(OpType operation, at::TensorList tensors) const {
  return describe_call(operation, tensors, *group_);
}

namespace {

/// `is_queued`: the future holds the result of the work on the GPU.
bool has_succeeded(const c10::ivalue::Future& ended, bool is_queued) {
  if (ended.hasError()) return false;
  return !is_queued || ended.constValue().toInt() == static_cast<int>(c10d::WorkResult::SUCCESS);
}

}  // namespace

template <class Call>
RecordingBackend::Work RecordingBackend::record(Collective collective, const Call& call) {
  const std::uint64_t seq = recorder_->enter(collective);
  Work work;
  try {
    work = call();
  } catch (...) {
    recorder_->leave(seq, CollectiveState::failed);
    throw;
  }
  if (!work) {  // inside a coalesced block: callers wait for the end of the block
    recorder_->leave(seq, CollectiveState::completed);
    return work;
  }
  const auto future = is_queued_ ? work->getFutureResult() : future_of(*work);
  if (!future) return c10::make_intrusive<RecordedWork>(std::move(work), recorder_, seq);
  future->addCallback(
      [recorder = recorder_, seq, is_queued = is_queued_](c10::ivalue::Future& ended) {
        recorder->leave(seq, has_succeeded(ended, is_queued) ? CollectiveState::completed
                                                             : CollectiveState::failed);
      },
      /*uses_future=*/false);
  return work;
}

template <class Call>
RecordingBackend::Work RecordingBackend::record_peer(Collective collective, const Call& call) {
  const std::uint64_t seq = recorder_->enter(collective);
  try {
    const Work work = call();
    if (work) return c10::make_intrusive<RecordedWork>(work, recorder_, seq);
  } catch (...) {
    recorder_->leave(seq, CollectiveState::failed);
    throw;
  }
  recorder_->leave(seq, CollectiveState::completed);
  return {};
}

RecordingBackend::Work RecordingBackend::broadcast(Tensors& tensors,
                                                   const c10d::BroadcastOptions& options) {
  return record(with_root(collective_of(OpType::BROADCAST, tensors), options.rootRank),
                [&] { return inner_->broadcast(tensors, options); });
}

RecordingBackend::Work RecordingBackend::allreduce(Tensors& tensors,
                                                   const c10d::AllreduceOptions& options) {
  return record(with_reduction(collective_of(OpType::ALLREDUCE, tensors), options.reduceOp),
                [&] { return inner_->allreduce(tensors, options); });
}

RecordingBackend::Work RecordingBackend::allreduce_sparse(Tensors& tensors,
                                                          const c10d::AllreduceOptions& options) {
  return record(with_reduction(collective_of(OpType::_ALLREDUCE_SPARSE, tensors), options.reduceOp),
                [&] { return inner_->allreduce_sparse(tensors, options); });
}

RecordingBackend::Work RecordingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return record(
      with_reduction(collective_of(OpType::ALLREDUCE_COALESCED, tensors), options.reduceOp),
      [&] { return inner_->allreduce_coalesced(tensors, options); });
}

RecordingBackend::Work RecordingBackend::reduce(Tensors& tensors,
                                                const c10d::ReduceOptions& options) {
  const Collective collective =
      with_reduction(collective_of(OpType::REDUCE, tensors), options.reduceOp);
  return record(with_root(collective, options.rootRank),
                [&] { return inner_->reduce(tensors, options); });
}

/// NCCL accepts parts of different sizes; then the whole list must be equal on every rank.
const RecordingBackend::Tensors& RecordingBackend::comparable(const TensorLists& lists,
                                                              const Tensors& part) const {
  return is_queued_ && lists.size() == 1 ? lists.front() : part;
}

RecordingBackend::Work RecordingBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions& options) {
  return record(collective_of(OpType::ALLGATHER, comparable(outputs, inputs)),
                [&] { return inner_->allgather(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                         const c10d::AllgatherOptions& options) {
  return record(collective_of(OpType::_ALLGATHER_BASE, input),
                [&] { return inner_->_allgather_base(output, input, options); });
}

RecordingBackend::Work RecordingBackend::allgather_coalesced(
    TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return record(collective_of(OpType::ALLGATHER_COALESCED, inputs),
                [&] { return inner_->allgather_coalesced(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return record(collective_of(OpType::ALLGATHER_COALESCED, inputs),
                [&] { return inner_->allgather_into_tensor_coalesced(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::gather(TensorLists& outputs, Tensors& inputs,
                                                const c10d::GatherOptions& options) {
  return record(with_root(collective_of(OpType::GATHER, inputs), options.rootRank),
                [&] { return inner_->gather(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                                       const c10d::GatherOptions& options) {
  return record(with_root(collective_of(OpType::GATHER, input), options.rootRank),
                [&] { return lockstep::gather_single(*inner_, output, input, options); });
}

RecordingBackend::Work RecordingBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                 const c10d::ScatterOptions& options) {
  return record(with_root(collective_of(OpType::SCATTER, outputs), options.rootRank),
                [&] { return inner_->scatter(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                        const c10d::ReduceScatterOptions& options) {
  return record(with_reduction(collective_of(OpType::REDUCE_SCATTER, comparable(inputs, outputs)),
                               options.reduceOp),
                [&] { return inner_->reduce_scatter(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return record(
      with_reduction(collective_of(OpType::_REDUCE_SCATTER_BASE, output), options.reduceOp),
      [&] { return inner_->_reduce_scatter_base(output, input, options); });
}

RecordingBackend::Work RecordingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return record(with_reduction(collective_of(OpType::REDUCE_SCATTER, outputs), options.reduceOp),
                [&] { return inner_->reduce_scatter_tensor_coalesced(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                       std::vector<int64_t>& output_sizes,
                                                       std::vector<int64_t>& input_sizes,
                                                       const c10d::AllToAllOptions& options) {
  return record(collective_of(OpType::ALLTOALL_BASE, input), [&] {
    return inner_->alltoall_base(output, input, output_sizes, input_sizes, options);
  });
}

RecordingBackend::Work RecordingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                  const c10d::AllToAllOptions& options) {
  return record(collective_of(OpType::ALLTOALL, inputs),
                [&] { return inner_->alltoall(outputs, inputs, options); });
}

RecordingBackend::Work RecordingBackend::barrier(const c10d::BarrierOptions& options) {
  return record(collective_of(OpType::BARRIER, {}), [&] { return inner_->barrier(options); });
}

void RecordingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  record(collective_of(OpType::BARRIER, {}), [&]() -> Work {
    inner_->monitoredBarrier(options, wait_all_ranks);
    return {};
  });
}

RecordingBackend::Work RecordingBackend::send(Tensors& tensors, int to, int tag) {
  return record_peer(with_root(collective_of(OpType::SEND, tensors), to),
                     [&] { return inner_->send(tensors, to, tag); });
}

RecordingBackend::Work RecordingBackend::recv(Tensors& tensors, int from, int tag) {
  return record_peer(with_root(collective_of(OpType::RECV, tensors), from),
                     [&] { return inner_->recv(tensors, from, tag); });
}

RecordingBackend::Work RecordingBackend::recvAnysource(Tensors& tensors, int tag) {
  return record_peer(collective_of(OpType::RECVANYSOURCE, tensors),
                     [&] { return inner_->recvAnysource(tensors, tag); });
}

void RecordingBackend::startCoalescing() { inner_->startCoalescing(); }

RecordingBackend::Work RecordingBackend::endCoalescing() {
  return record(collective_of(OpType::COALESCED, {}), [&] { return inner_->endCoalescing(); });
}

c10::intrusive_ptr<c10d::Backend> RecordingBackend::record_too(
    c10::intrusive_ptr<c10d::Backend> backend) const {
  if (!backend) return backend;  // a rank outside the new group
  auto group = std::make_shared<RecordedGroup>();
  group->size = backend->getSize();
  return c10::make_intrusive<RecordingBackend>(std::move(backend), recorder_, std::move(group));
}

c10::intrusive_ptr<c10d::Backend> RecordingBackend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  return record_too(inner_->split(store, ranks, options));
}

c10::intrusive_ptr<c10d::Backend> RecordingBackend::merge(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& options,
    const int& rank, const int& size) {
  return record_too(inner_->merge(store, options, rank, size));
}

c10::intrusive_ptr<c10d::Backend> RecordingBackend::shrink(
    const std::vector<int64_t>& excluded, int flags, const c10::intrusive_ptr<Options>& options) {
  return record_too(inner_->shrink(excluded, flags, options));
}

// Description and device are set by non-virtual functions, which reach only this object. They are
// passed on when the name, which is set last, arrives.
void RecordingBackend::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  if (group_->name.empty()) {  // split from another one
    group_->name = uid;
    record_joining(*recorder_, *group_, [] {});
  }
  inner_->setGroupUid(uid);
  inner_->setGroupDesc(getGroupDesc());
  inner_->setBoundDeviceId(getBoundDeviceId());
}

void RecordingBackend::registerOnCompletionHook(
    std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  onCompletionHook_ = hook;  // for hasHooks, which is not virtual
  inner_->registerOnCompletionHook(std::move(hook));
}

bool RecordingBackend::supportsSplitting() const { return inner_->supportsSplitting(); }
bool RecordingBackend::supportsCoalescing() const { return inner_->supportsCoalescing(); }
bool RecordingBackend::supportsTimeEstimation() const { return inner_->supportsTimeEstimation(); }
bool RecordingBackend::supportsShrinking() const { return inner_->supportsShrinking(); }
bool RecordingBackend::supportsTensorAlloc(c10::DeviceIndex device) {
  return inner_->supportsTensorAlloc(device);
}
void RecordingBackend::setTimeout(std::chrono::milliseconds timeout) {
  inner_->setTimeout(timeout);
}
const std::string RecordingBackend::getBackendName() const { return inner_->getBackendName(); }
c10::intrusive_ptr<RecordingBackend::Options> RecordingBackend::getBackendOptions() {
  return inner_->getBackendOptions();
}
void RecordingBackend::setSequenceNumberForGroup() { inner_->setSequenceNumberForGroup(); }
uint64_t RecordingBackend::getSequenceNumberForGroup() {
  return inner_->getSequenceNumberForGroup();
}
void RecordingBackend::waitForPendingWorks() { inner_->waitForPendingWorks(); }
void RecordingBackend::enableCollectivesTiming() { inner_->enableCollectivesTiming(); }
void RecordingBackend::eagerConnectSingleDevice(at::Device device) {
  inner_->eagerConnectSingleDevice(device);
}
c10d::ErrorType RecordingBackend::getError() { return inner_->getError(); }
std::shared_ptr<c10::Allocator> RecordingBackend::getMemAllocator() {
  return inner_->getMemAllocator();
}
at::Tensor RecordingBackend::allocateTensor(long size, at::TensorOptions options) {
  return inner_->allocateTensor(size, options);
}
void RecordingBackend::abort() { inner_->abort(); }
void RecordingBackend::shutdown() { inner_->shutdown(); }

}  // namespace lockstep
