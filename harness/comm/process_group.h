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

/// How ranks combine their tensors.
enum class ReduceOp { sum, average, minimum, maximum };

struct GroupOptions {
  std::string backend = "gloo";
  std::chrono::milliseconds timeout{60'000};  ///< of one collective, and of meeting the peers
  std::string device = "cpu";  ///< kind of devices whose tensors it takes beside the CPU's
  bool records = true;         ///< collectives, in the log; else the backend is called as it is
  /// Where the ranks of this host keep their collective logs. Not empty: before a collective is
  /// called it is held against what the others called, and one that does not fit is an error of the
  /// call. Nobody is waited for: who comes first has nobody to differ from.
  std::filesystem::path peer_logs = {};
};

/// Where a collective is called.
struct CallSite {
  const char* file = "";
  int line = 0;

  /// As a default argument: the place of the caller.
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

  /// Blocks until the result is there; what c10d throws is passed on unchanged.
  void wait();

 private:
  std::unique_ptr<State> state_;
};

/// The ranks of a cell and the collectives between them: a handle on a real c10d::ProcessGroup
/// whose backend records every call in a collective log. Collectives block until the result is
/// there; what c10d throws is passed on unchanged, because its words are evidence.
class ProcessGroup {
 public:
  /// Meets the other ranks of `placement`'s world. `log` receives the collectives and outlives the
  /// group. Throws Error (usage) for an unknown backend, c10::Error when the peers do not come.
  ProcessGroup(const RankPlacement& placement, const GroupOptions& options, CollectiveLog& log);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;

  /// Lets go of the log: later collectives are not recorded.
  void stop_recording();

  /// Step that collectives are logged under.
  void begin_step(std::int64_t step);

  void all_reduce(at::Tensor& tensor, ReduceOp op, CallSite site = CallSite::here());
  void broadcast(at::Tensor& tensor, int root, CallSite site = CallSite::here());
  /// `output`: of the dtype of `input`, with size() times its elements, in rank order.
  void all_gather(at::Tensor& output, at::Tensor& input, CallSite site = CallSite::here());
  /// `input`: of the dtype of `output`, with size() times its elements; part i goes to rank i.
  void reduce_scatter(at::Tensor& output, at::Tensor& input, ReduceOp op,
                      CallSite site = CallSite::here());
  void barrier(CallSite site = CallSite::here());

  /// As `all_reduce`, without waiting. `tensor` must not be touched before the result is there.
  Pending start_all_reduce(at::Tensor& tensor, ReduceOp op, CallSite site = CallSite::here());

  /// The group of some ranks of this one, given by their numbers here, ascending and each once;
  /// they are numbered from 0 there. Only these call it, all of them, with the same `name`, of 64
  /// bytes at most, which no other group has, of other ranks neither: logs know groups by it.
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name, const std::vector<int>& ranks);

  /// Healthy end of a rank, after its last collective: all ranks call it, or none can go on to end
  /// as some backends want it (MPI). Nothing can be called afterwards. A rank that failed does not.
  void shut_down();

  /// For the parts that stand on c10d themselves (DDP). Never null.
  c10d::ProcessGroup& c10d_group();

 private:
  struct State;
  explicit ProcessGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// While it lives, collectives of this thread are logged as being on what `text` says, instead of
/// on the parameter that their storage belongs to.
class CollectiveTag {
 public:
  explicit CollectiveTag(std::string text);
  ~CollectiveTag();
  CollectiveTag(const CollectiveTag&) = delete;
  CollectiveTag& operator=(const CollectiveTag&) = delete;

 private:
  std::string before_;
};

/// Backends that can be asked for on this build, by name.
std::vector<std::string> backend_names();

}  // namespace lockstep
