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
};

/// The ranks of a cell and the collectives between them: a handle on a real c10d::ProcessGroup
/// whose backend records every call in a collective log. Collectives block until the result is
/// there; what c10d throws is passed on unchanged, because its words are evidence.
class ProcessGroup {
 public:
  /// Meets the other ranks of `seat`'s world. `log` receives the collectives and outlives the
  /// group. Throws Error (usage) for an unknown backend, c10::Error when the peers do not come.
  ProcessGroup(const Seat& seat, const GroupOptions& options, CollectiveLog& log);
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int size() const;

  /// Lets go of the log: later collectives are not recorded.
  void stop_recording();

  /// Step that collectives are logged under.
  void begin_step(std::int64_t step);

  void all_reduce(at::Tensor& tensor, ReduceOp op);
  void broadcast(at::Tensor& tensor, int root);
  void barrier();

  /// Healthy end of a rank, after its last collective: all ranks call it, or none can go on to end
  /// as some backends want it (MPI). Nothing can be called afterwards. A rank that failed does not.
  void shut_down();

  /// For the parts that stand on c10d themselves (DDP). Never null.
  c10d::ProcessGroup& c10d_group();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Backends that can be asked for on this build, by name.
std::vector<std::string> backend_names();

}  // namespace lockstep
