#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/launch/launch.h"
#include "harness/observe/observer.h"
#include "harness/train/nn/module.h"
#include "reports/record/cell.h"
#include "reports/record/run_record.h"

namespace lockstep {

struct NodeDevices;
class ShardedModel;

/// The argument of a scenario's body: its place in the cell, the process group, and the observer.
/// One per process, used by one thread.
class Rank {
 public:
  /// `folder` is the cell's. Does not connect to the peers yet.
  Rank(Cell cell, RankPlacement placement, std::filesystem::path folder, GroupOptions group);
  ~Rank();

  const Cell& cell() const { return cell_; }

  /// The cell's folder, shared by all its processes, including perturbed references: a reference
  /// writes no file of its own there.
  const std::filesystem::path& folder() const { return folder_; }

  /// Whether this is the variant called `variant`. Accepts only literals, so that a body cannot ask
  /// for its own name.
  template <std::size_t length>
  [[nodiscard]] bool is(const char (&variant)[length]) const {
    return is_variant({variant, length - 1});
  }

  /// Whether the cell has `value` on `axis`, chosen or set by its variant.
  [[nodiscard]] bool has(std::string_view axis, std::string_view value = "on") const;
  /// The value on `axis`. Throws std::out_of_range if the cell has none.
  const std::string& text(std::string_view axis) const;
  std::int64_t number(std::string_view axis) const;

  /// Notes the line of the call as the branch point, shown in the report. The last call counts. A
  /// cell is triggered if its body came here and asked for its variant, before or afterwards: by
  /// name, or by a condition that the variant sets to a value other than the default.
  void at_branch(int line = __builtin_LINE());

  bool is_reference() const { return cell_.role == Role::reference; }

  /// 0 in the reference.
  int rank() const { return is_reference() ? 0 : placement_.rank; }
  /// Among the ranks of this machine, from 0.
  int local_rank() const { return is_reference() ? 0 : placement_.local_rank; }
  /// Ranks of the cell. The reference is one process and computes the shards of all ranks.
  int world_size() const { return cell_.world_size; }

  /// The process group; the first call runs the rendezvous.
  ProcessGroup& group();

  /// The device that this process trains on, its model and its inputs: the CPU, its own virtual
  /// device, or the GPU with the rank's number on the machine, counted from 0 again if ranks share
  /// them. The first call opens it, as `open_devices` does. On ranks whose body calls
  /// `open_devices` it is the CPU: that body places its model, and moves its inputs, itself.
  at::Device device();

  /// Seed `base` of the scenario, shifted by the run's `--seed`.
  std::uint64_t seed(std::uint64_t base) const { return base + cell_.seed; }

  /// The input to feed to the model: `tensor` on `device()`, but in a perturbed reference every
  /// element times 1 + eps or 1 - eps, the sign drawn from perturbation, step and call. Call it on
  /// every input, on each element the same number of times in every run. Whole numbers such as
  /// tokens cannot be perturbed. Instead, this step's gradients use perturbed parameters of the
  /// module whose `mean_of_rank_gradients` is being computed.
  at::Tensor input(const at::Tensor& tensor);

  /// Runs `body(step)` for every step of the cell, from 1.
  void train(const std::function<void(std::int64_t step)>& body);

  /// Notes every parameter's gradient, also an undefined one. Before the optimizer's first step it
  /// also notes the parameters, at `post_backward`: two runs are comparable if these are equal.
  void observe_gradients(Phase phase, const Module& module);
  void observe_parameters(Phase phase, const Module& module);
  void observe_buffers(Phase phase, const Module& module);

  /// The same for a sharded model: notes this rank's shards under the names of the parameters, with
  /// their offsets. Every rank holds different parts, so none are compared with each other.
  /// Unsharded parameters and gradients are noted whole.
  void observe_gradients(Phase phase, ShardedModel& sharded);
  void observe_parameters(Phase phase, ShardedModel& sharded);

  /// Takes the optimizer's step, and notes by how much it moved each parameter, in its dtype, at
  /// `post_step`.
  void observe_update(const Module& module, const std::function<void()>& step);
  void observe_update(ShardedModel& sharded, const std::function<void()>& step);

  Observer& observer() { return observer_; }

  /// For the reference: stores the mean of the ranks' gradients in `.grad` of every parameter of
  /// `module`, summed in rank order and divided once by the world size, as DDP promises.
  /// `loss_of(rank)` computes a rank's loss. Notes each rank's own gradient at `post_backward`,
  /// with the rank as micro-batch and in its `group_of_one`; in step 1 also the parameters, in the
  /// group of rank 0.
  void mean_of_rank_gradients(Module& module, const std::function<at::Tensor(int rank)>& loss_of);

  /// Writes everything out after the body has ended. Throws Error if that fails, or if observing or
  /// stating progress failed before.
  void finish();

  /// Leaves the process group collectively. Call last, on success only.
  void leave_group();

  std::int64_t step() const { return observer_.step(); }
  /// Median time of a step without observing; absent before the first step has ended.
  std::optional<double> step_seconds() const;
  /// Line of the last branch point; 0: the body reached none or did not ask for its variant.
  int variant_line() const { return was_asked_for_ ? variant_line_ : 0; }
  /// Start of the last step, by the monotonic clock; absent: no step has begun.
  std::optional<std::int64_t> step_began_ns() const { return step_began_ns_; }
  RendezvousState rendezvous() const { return rendezvous_; }

 private:
  void meet();
  void state_progress() const;
  bool must_note_parameters();
  void note_initial_parameters(const Module& module);
  void note_own_gradients(int rank, const Module& module);
  at::Tensor perturbed(const at::Tensor& tensor, std::uint64_t number) const;
  void perturb_weights();
  void restore_weights();
  bool is_variant(std::string_view variant) const;
  void note_question(std::string_view axis) const;
  void note_asked() const;
  /// 0: no perturbation.
  int perturbation() const { return is_reference() ? placement_.rank : 0; }
  friend std::vector<at::Device> open_devices(Rank& rank, const NodeDevices& options);

  /// A parameter of the module whose mean gradients are being computed.
  struct WeightBefore {
    at::Tensor parameter;
    at::Tensor value;  ///< before it was perturbed; undefined: not perturbed
  };

  Cell cell_;
  RankPlacement placement_;
  std::filesystem::path folder_;
  GroupOptions group_options_;
  Observer observer_;
  std::optional<at::Device> device_;  ///< absent: not opened yet
  std::unique_ptr<CollectiveLog> log_;
  std::unique_ptr<ProcessGroup> group_;
  bool has_noted_parameters_ = false;  ///< before the first step
  int variant_line_ = 0;
  mutable bool was_asked_for_ = false;
  std::optional<std::int64_t> step_began_ns_;
  RendezvousState rendezvous_ = RendezvousState::not_begun;
  mutable std::exception_ptr
      status_failure_;        ///< the first of `state_progress`; null: there was none
  std::uint64_t inputs_ = 0;  ///< calls of `input` in this step
  std::vector<WeightBefore> weights_;
  std::vector<double> step_seconds_;
};

/// Runs a scenario's body on one rank of `cell` and writes its files to `folder`, including its
/// rank status. Returns the exit status of the process: 0, or 1 if the body raised; the message is
/// printed and stored in the status.
int run_rank(const std::function<void(Rank&)>& body, const Cell& cell,
             const RankPlacement& placement, const std::filesystem::path& folder,
             const GroupOptions& group);

}  // namespace lockstep
