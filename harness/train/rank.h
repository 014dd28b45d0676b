#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/launch/launch.h"
#include "harness/observe/observer.h"
#include "harness/train/module.h"
#include "reports/cell.h"

namespace lockstep {

/// What a scenario's body gets: its place in the cell, the process group, and the observer. One per
/// process, used by one thread.
class Rank {
 public:
  /// `folder` is the cell's. Does not meet the peers yet.
  Rank(Cell cell, Seat seat, std::filesystem::path folder, GroupOptions group);
  ~Rank();

  const Cell& cell() const { return cell_; }

  /// Whether this is the variant called `variant`. Where it is, the line of the call is noted: the
  /// report points at it as the place where the variants part.
  bool is(std::string_view variant, int line = __builtin_LINE());

  const std::string& axis(std::string_view name) const { return axis_value(cell_, name); }

  int rank() const { return seat_.rank; }
  /// Ranks of the cell. The reference is one process and computes the shards of all of them.
  int world_size() const { return cell_.world_size; }

  /// The process group; met on the first call.
  ProcessGroup& group();

  /// Seed `base` of the scenario, moved by the run's `--seed`.
  std::uint64_t seed(std::uint64_t base) const { return base + cell_.seed; }

  /// Runs `body(step)` for every step of the cell, from 1.
  void train(const std::function<void(std::int64_t step)>& body);

  /// Notes every parameter's gradient; one that is undefined is noted as such.
  void observe_gradients(Point point, const Module& module);
  void observe_parameters(Point point, const Module& module);
  void observe_buffers(Point point, const Module& module);
  Observer& observer() { return observer_; }

  /// For the reference: leaves the mean over the ranks' gradients in `.grad` of every parameter of
  /// `module`, summed in rank order and divided by the world size once, as DDP promises it.
  /// `loss_of(rank)` computes a rank's loss. Notes each rank's own gradient at `backward`, under
  /// the rank as micro-batch and in its `own_gradient_group`.
  void mean_of_rank_gradients(Module& module, const std::function<at::Tensor(int rank)>& loss_of);

  /// Writes everything out; the body has ended. Throws Error (usage) when that fails.
  void finish();

  std::int64_t step() const { return observer_.step(); }
  int variant_line() const { return variant_line_; }  ///< of the last `is` that was true; 0: none

 private:
  void state_progress();

  Cell cell_;
  Seat seat_;
  std::filesystem::path folder_;
  GroupOptions group_options_;
  Observer observer_;
  std::unique_ptr<CollectiveLog> log_;
  std::unique_ptr<ProcessGroup> group_;
  int variant_line_ = 0;
};

/// Runs a scenario's body on one rank of `cell` and leaves its files in `folder`, among them its
/// statement of how it ended. Returns the process's exit status: 0, or 1 when the body raised; the
/// text is printed and stated.
int run_rank(const std::function<void(Rank&)>& body, const Cell& cell, const Seat& seat,
             const std::filesystem::path& folder, const GroupOptions& group);

}  // namespace lockstep
