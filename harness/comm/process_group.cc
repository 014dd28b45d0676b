#include "harness/comm/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <utility>

#include "harness/comm/aliasing_backend.h"
#include "harness/comm/backend.h"
#include "harness/comm/modules.h"
#include "harness/comm/open_store.h"
#include "harness/comm/recording_backend.h"
#include "harness/comm/single_collectives.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

const std::vector<BackendEntry>& backends() {
  static const std::vector<BackendEntry> entries{{Backend::gloo, c10::DeviceType::CPU, make_gloo},
                                                 {Backend::mpi, c10::DeviceType::CPU, make_mpi},
                                                 {Backend::nccl, c10::DeviceType::CUDA, make_nccl}};
  return entries;
}

const BackendEntry& find_backend(Backend backend) {
  for (const BackendEntry& entry : backends()) {
    if (entry.backend == backend) return entry;
  }
  throw internal_error("a backend without a maker");
}

/// Waits until all ranks are there. A rank that ends at once would close connections that others
/// still open.
void wait_until_all_met(c10d::Store& store, const RankPlacement& placement) {
  if (placement.world_size == 1) return;
  store.set(fmt::format("met/{}", placement.rank), std::string("yes"));
  std::vector<std::string> keys;
  for (int rank = 0; rank < placement.world_size; ++rank)
    keys.push_back(fmt::format("met/{}", rank));
  store.wait(keys);
}

using BackendHandle = c10::intrusive_ptr<c10d::Backend>;

/// DDP's logger warns about devices without a timer. Virtual devices run synchronously, so the CPU
/// clock times them.
void register_timer() {
  constexpr auto kType = c10::DeviceType::PrivateUse1;
  if (c10d::TimerRegistry()->Has(kType)) return;
  c10d::TimerRegistry()->Register(kType, [](c10::Device device) {
    return c10d::TimerRegistry()->Create(c10::DeviceType::CPU, device);
  });
}

/// Receiver of the calls of a group.
struct Recording {
  std::shared_ptr<CollectiveRecorder> recorder;
  std::shared_ptr<RecordedGroup> group;  ///< null: none
};

BackendHandle recorded(const BackendHandle& inner, const Recording& recording) {
  return c10::make_intrusive<RecordingBackend>(inner, recording.recorder, recording.group);
}

/// Lets `group` take tensors of such devices. `backend` is `inner`, recorded as in
/// `recording`.
void add_device(c10d::ProcessGroup& group, DeviceKind kind, const BackendHandle& inner,
                const BackendHandle& backend, const Recording& recording) {
  if (kind == DeviceKind::cpu) return;
  if (kind == DeviceKind::cuda) {
    const auto type = c10d::ProcessGroup::strToBackendType(backend->getBackendName());
    group.setBackend(c10::DeviceType::CUDA, type, backend);
    return;
  }
  register_timer();
  const BackendHandle aliasing = c10::make_intrusive<AliasingBackend>(inner);
  // A group has one backend per type; the CPU's type would select the CPU's backend.
  group.setBackend(c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
                   recording.group ? recorded(aliasing, recording) : aliasing);
}

c10d::ReduceOp to_c10d(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::average:
      return c10d::ReduceOp::AVG;
    case ReduceOp::minimum:
      return c10d::ReduceOp::MIN;
    case ReduceOp::maximum:
      return c10d::ReduceOp::MAX;
  }
  throw internal_error("a reduction without a name");
}

}  // namespace

struct ProcessGroup::State {
  RankPlacement placement;  ///< in this group
  bool is_part = false;     ///< of a group whose log it writes to
  GroupOptions options;
  c10::intrusive_ptr<c10d::Store> store;
  Recording recording;
  BackendHandle backend;
  c10::intrusive_ptr<c10d::ProcessGroup> group;

  /// Rendezvous with the other ranks of the group `name`, in `store`.
  void join(const std::string& name) {
    if (!options.records) return meet(name);
    recording.group = std::make_shared<RecordedGroup>();
    recording.group->name = name;
    recording.group->size = placement.world_size;
    record_joining(*recording.recorder, *recording.group, [&] { meet(name); });
  }

 private:
  void meet(const std::string& name) {
    const BackendEntry& entry = find_backend(options.backend);
    if (!store) {
      store = c10::make_intrusive<c10d::PrefixStore>(
          "lockstep", open_store(placement.rendezvous, options.timeout));
    }
    const BackendHandle inner = entry.make(store, placement, options.timeout);
    backend = options.records ? recorded(inner, recording) : inner;
    wait_until_all_met(*store, placement);
    const auto type =
        c10d::ProcessGroup::strToBackendType(std::string(lockstep::name(entry.backend)));
    group = c10::make_intrusive<c10d::ProcessGroup>(store, placement.rank, placement.world_size);
    group->setBackend(entry.device, type, backend);
    add_device(*group, options.device, inner, backend, recording);
    group->setDefaultBackend(type);
    group->setGroupDesc(name);
    group->setGroupName(name);
  }
};

ProcessGroup::ProcessGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}

ProcessGroup::ProcessGroup(const RankPlacement& placement, const GroupOptions& options,
                           CollectiveLog& log)
    : state_(std::make_unique<State>()) {
  // As in Python: a lost peer is an error of the next call and does not kill the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::optional<PeerLogs> peers;
  if (!options.peer_logs.empty())
    peers.emplace(options.peer_logs, placement.rank, placement.world_size);
  state_->placement = placement;
  state_->options = options;
  state_->recording.recorder = std::make_shared<CollectiveRecorder>(log, std::move(peers));
  state_->join("world");
}

std::unique_ptr<ProcessGroup> ProcessGroup::subgroup(const std::string& name,
                                                     const std::vector<int>& ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank());
  if (place == ranks.end()) {
    throw internal_error(fmt::format("rank {} is not in the group {}", rank(), name));
  }
  if (name.size() > kLongestGroupName) {
    throw internal_error(
        fmt::format("the group '{}' would be cut to {} bytes in the log", name, kLongestGroupName));
  }
  auto state = std::make_unique<State>();
  state->is_part = true;
  state->placement = state_->placement;
  state->placement.rank = static_cast<int>(place - ranks.begin());
  state->placement.world_size = static_cast<int>(ranks.size());
  state->options = state_->options;
  state->recording.recorder = state_->recording.recorder;
  state->store = c10::make_intrusive<c10d::PrefixStore>(name, state_->store);
  state->join(name);
  return std::unique_ptr<ProcessGroup>(new ProcessGroup(std::move(state)));
}

// Leaving a group joins its threads, which wait for peers that may never come. So a group with
// pending collectives is left to the end of the process.
ProcessGroup::~ProcessGroup() {
  CollectiveRecorder& recorder = *state_->recording.recorder;
  const int pending = state_->is_part ? recorder.pending() : recorder.close();
  if (pending > 0) state_.release();
}

int ProcessGroup::rank() const { return state_->group->getRank(); }
int ProcessGroup::size() const { return state_->group->getSize(); }

at::Device ProcessGroup::device() const {
  const c10::DeviceType type = find_backend(state_->options.backend).device;
  if (type == c10::DeviceType::CPU) return at::kCPU;
  return state_->backend->getBoundDeviceId().value_or(at::Device(type));
}

void ProcessGroup::begin_step(std::int64_t step) { state_->recording.recorder->begin_step(step); }

void ProcessGroup::stop_recording() { state_->recording.recorder->close(); }

struct Pending::State {
  c10::intrusive_ptr<c10d::Work> work;
};

Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pending::~Pending() = default;
Pending::Pending(Pending&& other) noexcept = default;
Pending& Pending::operator=(Pending&& other) noexcept = default;

void Pending::wait() { state_->work->wait(); }

Pending ProcessGroup::start_all_reduce(at::Tensor& tensor, ReduceOp op, CallSite site) {
  const CallContext context(site);
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(op);
  std::vector<at::Tensor> tensors{tensor};
  return Pending(
      std::make_unique<Pending::State>(Pending::State{state_->group->allreduce(tensors, options)}));
}

void ProcessGroup::all_reduce(at::Tensor& tensor, ReduceOp op, CallSite site) {
  start_all_reduce(tensor, op, site).wait();
}

void ProcessGroup::broadcast(at::Tensor& tensor, int root, CallSite site) {
  const CallContext context(site);
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors{tensor};
  state_->group->broadcast(tensors, options)->wait();
}

void ProcessGroup::all_gather(at::Tensor& output, at::Tensor& input, CallSite site) {
  const CallContext context(site);
  all_gather_single(*state_->group, output, input)->wait();
}

void ProcessGroup::reduce_scatter(at::Tensor& output, at::Tensor& input, ReduceOp op,
                                  CallSite site) {
  const CallContext context(site);
  c10d::ReduceScatterOptions options;
  options.reduceOp = to_c10d(op);
  reduce_scatter_single(*state_->group, output, input, options)->wait();
}

void ProcessGroup::all_to_all(at::Tensor& output, at::Tensor& input, CallSite site) {
  const CallContext context(site);
  std::vector<std::int64_t> equal_parts;
  state_->group->alltoall_base(output, input, equal_parts, equal_parts)->wait();
}

void ProcessGroup::send(at::Tensor& tensor, int to, CallSite site) {
  const CallContext context(site);
  std::vector<at::Tensor> tensors{tensor};
  state_->group->send(tensors, to, /*tag=*/0)->wait();
}

void ProcessGroup::receive(at::Tensor& tensor, int from, CallSite site) {
  const CallContext context(site);
  std::vector<at::Tensor> tensors{tensor};
  state_->group->recv(tensors, from, /*tag=*/0)->wait();
}

void ProcessGroup::barrier(CallSite site) {
  const CallContext context(site);
  state_->group->barrier()->wait();
}

// Gloo's shutdown would only wait for connections that the end of the process closes anyway.
void ProcessGroup::shut_down() {
  if (state_->backend->getBackendName() != "gloo") state_->backend->shutdown();
}

c10d::ProcessGroup& ProcessGroup::c10d_group() { return *state_->group; }

bool is_built(Backend backend) {
  if (backend == Backend::mpi) return !built_mpis().empty();
  return backend != Backend::nccl || is_nccl_built();
}

}  // namespace lockstep
