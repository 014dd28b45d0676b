#include "harness/comm/recording_backend.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include "harness/comm/future_of.h"
#include "harness/comm/single_collectives.h"
#include "harness/comm/tensor_names.h"

namespace lockstep {

using c10d::OpType;

namespace {

/// "_ALLGATHER_BASE" is "allgather_base".
std::string lower_case_name(OpType operation) {
  std::string text = c10d::opTypeToString(operation);
  text.erase(0, text.find_first_not_of('_'));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Caches, per thread and number, strings that torch creates anew each time.
template <class Make>
const std::string& made_once(std::vector<std::string>& made, std::size_t number, const Make& make) {
  if (number >= made.size()) made.resize(number + 1);
  if (made[number].empty()) made[number] = make();
  return made[number];
}

const std::string& operation_name(OpType operation) {
  thread_local std::vector<std::string> names;
  return made_once(names, static_cast<std::size_t>(operation),
                   [&] { return lower_case_name(operation); });
}

const std::string& dtype_name(at::ScalarType type) {
  thread_local std::vector<std::string> names;
  return made_once(names, static_cast<std::size_t>(type),
                   [&] { return c10::getDtypeNames(type).first; });
}

std::string reduction_name(const c10d::ReduceOp& reduction) {
  constexpr std::array<std::string_view, 9> kNames{"sum",  "avg", "product", "min",       "max",
                                                   "band", "bor", "bxor",    "premul_sum"};
  return std::string(kNames.at(reduction.op_));
}

Collective with_reduction(Collective collective, const c10d::ReduceOp& reduction) {
  collective.reduction = reduction_name(reduction);
  return collective;
}

Collective with_root(Collective collective, std::int64_t root) {
  collective.root = static_cast<int>(root);
  return collective;
}

/// For works without a future: the waiting thread sees their end.
class RecordedWork : public c10d::Work {
 public:
  RecordedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<CollectiveRecorder> recorder,
               std::uint64_t seq)
      : Work(-1, inner->retrieveOpType()),
        inner_(std::move(inner)),
        recorder_(std::move(recorder)),
        seq_(seq) {}
  /// No thread can wait for it any more, however it ends.
  ~RecordedWork() override { leave(CollectiveState::completed); }

  bool wait(std::chrono::milliseconds timeout) override {
    try {
      const bool is_done = inner_->wait(timeout);
      leave(is_done ? CollectiveState::completed : CollectiveState::failed);
      return is_done;
    } catch (...) {
      leave(CollectiveState::failed);
      throw;
    }
  }

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
    return inner_->getFutureResult();
  }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

 private:
  void leave(CollectiveState state) {
    if (!has_left_.exchange(true)) recorder_->leave(seq_, state);
  }

  c10::intrusive_ptr<c10d::Work> inner_;
  std::shared_ptr<CollectiveRecorder> recorder_;
  std::uint64_t seq_;
  std::atomic<bool> has_left_{false};
};

}  // namespace

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

namespace {

/// Calls that every rank of a group makes, so that equal numbers match. The end of a coalesced
/// block does not count: it may contain point-to-point calls, and its collectives have their own
/// numbers.
bool is_collective(OpType operation) {
  return operation != OpType::SEND && operation != OpType::RECV &&
         operation != OpType::RECVANYSOURCE && operation != OpType::COALESCED;
}

/// "[4, 4]"; a shape that does not fit into a log is omitted.
std::string shape_of(const at::Tensor& tensor) {
  std::array<char, 64> text{'['};
  char* at = text.data() + 1;
  for (const std::int64_t size : tensor.sizes()) {
    if (text.data() + text.size() - at < 24) break;
    if (at != text.data() + 1) at = std::copy_n(", ", 2, at);
    at = std::to_chars(at, text.data() + text.size(), size).ptr;
  }
  *at++ = ']';
  return {text.data(), at};
}

void describe_first(const at::Tensor& tensor, Collective& collective) {
  collective.dtype = dtype_name(tensor.scalar_type());
  collective.shape = shape_of(tensor);
  // Other threads of the autograd engine may assign gradients meanwhile.
  TensorName name;
  if (!current_tag().empty()) {
    name = tag_name(current_tag());
  } else if (tensor.is_cpu()) {
    name = name_of(tensor);
  }
  collective.tensor = std::move(name.text);
  collective.tensor_id = name.id;
}

}  // namespace

Collective RecordingBackend::collective_of(OpType operation, at::TensorList tensors) const {
  Collective collective;
  collective.operation = operation_name(operation);
  collective.group = group_->name;
  collective.group_size = group_->size;
  if (is_collective(operation)) collective.number = ++group_->calls;
  collective.tensors = static_cast<std::uint32_t>(tensors.size());
  if (!tensors.empty()) describe_first(tensors[0], collective);
  for (const at::Tensor& tensor : tensors) {
    const auto elements = static_cast<std::uint64_t>(tensor.numel());
    collective.elements += elements;
    collective.bytes += elements * tensor.element_size();
  }
  return collective;
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
