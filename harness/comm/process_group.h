#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/launch/launch.h"
#include "harness/record/collective_log.h"

namespace c10d {
class ProcessGroup;
}

namespace lockstep {

/// Reduction of the ranks' tensors.
enum class ReduceOp { sum, average, minimum, maximum };

struct GroupOptions {
  Backend backend = Backend::gloo;
  std::chrono::milliseconds timeout{60'000};  ///< of one collective, and of the rendezvous
  DeviceKind device = DeviceKind::cpu;        ///< whose tensors it takes, in addition to the CPU's
  bool records = true;  ///< log the collectives; otherwise the backend is called directly
  /// Folder of the collective logs of this host's ranks. If not empty, each collective is compared
  /// with the others' calls before it is made, and a mismatch is an error of the call. The rank
  /// that calls second detects it, so no rank waits.
  std::filesystem::path peer_logs = {};
};

/// Source location of a collective.
struct CallSite {
  const char* file = "";
  int line = 0;

  /// As a default argument: the caller's location.
  static CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// A collective that was called and may not have ended.
class Pending {
 public:
  struct State;
  explicit Pending(std::unique_ptr<State> state);
  ~Pending();
  Pending(Pending&& other) noexcept;
  Pending& operator=(Pending&& other) noexcept;

  /// Blocks until the result is there; passes on c10d's exceptions unchanged.
  void wait();

 private:
  std::unique_ptr<State> state_;
};

/// The ranks of a cell and their collectives. It is a handle on a real c10d::ProcessGroup whose
/// backend records every call in a collective log. Collectives block until the result is there.
/// Exceptions of c10d are passed on unchanged, because their words are evidence.
class ProcessGroup {
 public:
  /// Performs the rendezvous with the other ranks of `placement`'s world. `log` receives the
  /// collectives and outlives the group. Throws Error (usage) for an unknown backend, c10::Error
  /// when the peers do not come.
  ProcessGroup(const RankPlacement& placement, const GroupOptions& options, CollectiveLog& log);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;

  /// Device of a tensor that is made only for a collective, such as a count: the CPU, and over NCCL
  /// this rank's GPU.
  at::Device device() const;

  /// Releases the log: later collectives are not recorded.
  void stop_recording();

  /// Sets the step that collectives are logged under.
  void begin_step(std::int64_t step);

  void all_reduce(at::Tensor& tensor, ReduceOp op, CallSite site = CallSite::here());
  void broadcast(at::Tensor& tensor, int root, CallSite site = CallSite::here());
  /// Requires: `output` has the dtype of `input` and size() times its elements, in rank order.
  void all_gather(at::Tensor& output, at::Tensor& input, CallSite site = CallSite::here());
  /// Requires: `input` has the dtype of `output` and size() times its elements. Part i goes to rank
  /// i.
  void reduce_scatter(at::Tensor& output, at::Tensor& input, ReduceOp op,
                      CallSite site = CallSite::here());
  /// Part i of `input` goes to rank i, and its part for this rank becomes part i of `output`.
  /// Requires: both have the same dtype and shape, and size() equal parts along dimension 0.
  void all_to_all(at::Tensor& output, at::Tensor& input, CallSite site = CallSite::here());
  void barrier(CallSite site = CallSite::here());

  /// One tensor from this rank to another one, which receives a tensor of the same dtype and shape.
  /// Both are contiguous. Neither takes part in the order of collectives.
  void send(at::Tensor& tensor, int to, CallSite site = CallSite::here());
  void receive(at::Tensor& tensor, int from, CallSite site = CallSite::here());

  /// Like `all_reduce`, without waiting. `tensor` must not be used before the result is there.
  Pending start_all_reduce(at::Tensor& tensor, ReduceOp op, CallSite site = CallSite::here());

  /// A group of some ranks of this one, given by their ascending, distinct numbers here; they are
  /// numbered from 0 there. Exactly these ranks call it, with the same `name` of at most 64 bytes.
  /// Logs identify groups by name, so no other group may have it, not even one of other ranks.
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name, const std::vector<int>& ranks);

  /// Successful end of a rank, after its last collective. All ranks call it, because some backends
  /// (MPI) require that. No calls are allowed afterwards. A failed rank does not call it.
  void shut_down();

  /// For parts built directly on c10d (DDP). Never null.
  c10d::ProcessGroup& c10d_group();

 private:
  struct State;
  explicit ProcessGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// While it exists, collectives of this thread are logged with `text` as their tensor's
/// description, instead of the parameter that owns their storage.
class CollectiveTag {
 public:
  explicit CollectiveTag(std::string text);
  ~CollectiveTag();
  CollectiveTag(const CollectiveTag&) = delete;
  CollectiveTag& operator=(const CollectiveTag&) = delete;

 private:
  std::string before_;
};

/// Whether this build has the backend.
bool is_built(Backend backend);

}  // namespace lockstep
