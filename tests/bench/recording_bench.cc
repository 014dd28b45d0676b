// Cost of recording a collective: the same call of an idle backend, bare, recorded, and recorded
// and compared with peers' calls. One run shows all of them.

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/recording_backend.h"
#include "harness/comm/tensor_names.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

class DoneWork : public c10d::Work {
 public:
  explicit DoneWork(c10::intrusive_ptr<c10::ivalue::Future> done) : done_(std::move(done)) {}
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return done_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> done_;
};

/// Every collective completes when it is called.
class IdleBackend : public c10d::Backend {
 public:
  explicit IdleBackend(int size) : Backend(0, size) { done_->markCompleted(); }
  const std::string getBackendName() const override { return "idle"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&,
                                           const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<DoneWork>(done_);
  }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> done_ =
      c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

/// As many parameters as a transformer of 24 layers, each with a gradient.
std::vector<at::Tensor> named_gradients() {
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < 300; ++i) {
    parameters.push_back(at::ones({8, 8}).requires_grad_(true));
    parameters.back().mutable_grad() = at::ones({8, 8});
    name_parameter(parameters.back(), fmt::format("layers.{}.mlp.down_proj.weight", i));
  }
  return parameters;
}

void call_all(benchmark::State& state, c10d::Backend& backend) {
  at::set_num_threads(1);
  const std::vector<at::Tensor> parameters = named_gradients();
  const CallContext context(CallSite::here());
  std::size_t next = 0;
  for (auto _ : state) {
    std::vector<at::Tensor> tensors{parameters[next++ % parameters.size()].grad()};
    benchmark::DoNotOptimize(backend.allreduce(tensors, {}));
  }
}

void bare(benchmark::State& state) {
  IdleBackend backend(2);
  call_all(state, backend);
}

/// A backend recorded in `folder`; `compares`: with the logs of its peers there.
void call_recorded(benchmark::State& state, const std::filesystem::path& folder, int size,
                   bool compares) {
  CollectiveLog log(collective_log_file(folder, 0), 0);
  std::optional<PeerLogs> peers;
  if (compares) peers.emplace(folder, 0, size);
  const auto recorder = std::make_shared<CollectiveRecorder>(log, std::move(peers));
  const auto group = std::make_shared<RecordedGroup>();
  group->name = "world";
  group->size = size;
  const auto backend = c10::make_intrusive<RecordingBackend>(c10::make_intrusive<IdleBackend>(size),
                                                             recorder, group);
  call_all(state, *backend);
  recorder->close();
}

void recorded(benchmark::State& state) {
  const TemporaryFolder folder;
  call_recorded(state, folder.path(), 2, false);
}

/// The peers have not called yet, so only their progress is read.
void compared(benchmark::State& state) {
  const TemporaryFolder folder;
  const auto size = static_cast<int>(state.range(0));
  std::vector<std::unique_ptr<CollectiveLog>> logs;
  for (int rank = 1; rank < size; ++rank) {
    logs.push_back(std::make_unique<CollectiveLog>(collective_log_file(folder.path(), rank), rank));
  }
  call_recorded(state, folder.path(), size, true);
}

// As many collectives as in an hour of training. A log grows by doubling, and the last growth would
// dominate otherwise.
constexpr int kCalls = 100'000;
BENCHMARK(bare)->Iterations(kCalls);
BENCHMARK(recorded)->Iterations(kCalls);
BENCHMARK(compared)->Arg(2)->Arg(8)->Iterations(kCalls);

}  // namespace
}  // namespace lockstep
