#include "harness/comm/process_group.h"

#include <fmt/format.h>

#include <csignal>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <utility>

#include "harness/comm/aliasing_backend.h"
#include "harness/comm/backend.h"
#include "harness/comm/open_store.h"
#include "harness/comm/recording_backend.h"
#include "reports/error.h"

namespace lockstep {

namespace {

const std::vector<BackendEntry>& backends() {
  static const std::vector<BackendEntry> entries{{"gloo", c10::DeviceType::CPU, make_gloo}};
  return entries;
}

const BackendEntry& find_backend(const std::string& name) {
  for (const BackendEntry& entry : backends()) {
    if (entry.name == name) return entry;
  }
  throw unknown_name("backend", name, backend_names());
}

/// Nobody goes on before everybody has met: a rank that ends at once would close connections that
/// others still make.
void wait_until_all_met(c10d::Store& store, const Seat& seat) {
  if (seat.world_size == 1) return;
  store.set(fmt::format("met/{}", seat.rank), std::string("yes"));
  std::vector<std::string> keys;
  for (int rank = 0; rank < seat.world_size; ++rank) keys.push_back(fmt::format("met/{}", rank));
  store.wait(keys);
}

using BackendHandle = c10::intrusive_ptr<c10d::Backend>;

/// DDP's logger warns of devices without a timer. What virtual devices do is done when it is asked
/// for: the clock of the CPU times them.
void register_timer() {
  constexpr auto kType = c10::DeviceType::PrivateUse1;
  if (c10d::TimerRegistry()->Has(kType)) return;
  c10d::TimerRegistry()->Register(kType, [](c10::Device device) {
    return c10d::TimerRegistry()->Create(c10::DeviceType::CPU, device);
  });
}

/// Makes `group` take tensors of the kind of devices called `name`. `recorded` is `inner` as
/// `recorder` hears it.
void add_device(c10d::ProcessGroup& group, const std::string& name, const BackendHandle& inner,
                const BackendHandle& recorded, std::shared_ptr<CollectiveRecorder> recorder) {
  if (name == "cpu") return;
  if (name == "cuda") {
    const auto type = c10d::ProcessGroup::strToBackendType(recorded->getBackendName());
    group.setBackend(c10::DeviceType::CUDA, type, recorded);
    return;
  }
  if (name != "sim") throw unknown_name("kind of devices", name, {"cpu", "sim", "cuda"});
  register_timer();
  // A group has one backend of each type: under the type of the CPU's it would be that one.
  group.setBackend(c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
                   c10::make_intrusive<RecordingBackend>(
                       c10::make_intrusive<AliasingBackend>(inner), std::move(recorder)));
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
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<CollectiveRecorder> recorder;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

ProcessGroup::ProcessGroup(const Seat& seat, const GroupOptions& options, CollectiveLog& log)
    : state_(std::make_unique<State>()) {
  // As in Python: a peer that is gone is an error of the call that meets it, and kills nobody.
  std::signal(SIGPIPE, SIG_IGN);
  const BackendEntry& entry = find_backend(options.backend);
  state_->store = c10::make_intrusive<c10d::PrefixStore>(
      "lockstep", open_store(seat.rendezvous, options.timeout));
  state_->recorder = std::make_shared<CollectiveRecorder>(log);
  const BackendHandle inner = entry.make(state_->store, seat, options.timeout);
  const auto backend = c10::make_intrusive<RecordingBackend>(inner, state_->recorder);
  wait_until_all_met(*state_->store, seat);

  const auto type = c10d::ProcessGroup::strToBackendType(entry.name);
  state_->group =
      c10::make_intrusive<c10d::ProcessGroup>(state_->store, seat.rank, seat.world_size);
  state_->group->setBackend(entry.device, type, backend);
  add_device(*state_->group, options.device, inner, backend, state_->recorder);
  state_->group->setDefaultBackend(type);
  state_->group->setGroupDesc("world");
  state_->group->setGroupName("world");
}

// Leaving a group joins its threads, and those wait for peers that may never come: a group with
// collectives under way is left to the end of the process.
ProcessGroup::~ProcessGroup() {
  if (state_->recorder->close() > 0) state_.release();
}

int ProcessGroup::rank() const { return state_->group->getRank(); }
int ProcessGroup::size() const { return state_->group->getSize(); }

void ProcessGroup::begin_step(std::int64_t step) { state_->recorder->begin_step(step); }

void ProcessGroup::stop_recording() { state_->recorder->close(); }

void ProcessGroup::all_reduce(at::Tensor& tensor, ReduceOp op) {
  c10d::AllreduceOptions options;
  options.reduceOp = to_c10d(op);
  std::vector<at::Tensor> tensors{tensor};
  state_->group->allreduce(tensors, options)->wait();
}

void ProcessGroup::broadcast(at::Tensor& tensor, int root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  std::vector<at::Tensor> tensors{tensor};
  state_->group->broadcast(tensors, options)->wait();
}

void ProcessGroup::barrier() { state_->group->barrier()->wait(); }

c10d::ProcessGroup& ProcessGroup::c10d_group() { return *state_->group; }

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendEntry& entry : backends()) names.push_back(entry.name);
  return names;
}

}  // namespace lockstep
