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

class ShardedModel;

/// What a scenario's body gets: its place in the cell, the process group, and the observer. One per
/// process, used by one thread.
class Rank {
 public:
  /// `folder` is the cell's. Does not meet the peers yet.
  Rank(Cell cell, RankPlacement placement, std::filesystem::path folder, GroupOptions group);
  ~Rank();

  const Cell& cell() const { return cell_; }

  /// The cell's folder, the same for all its processes, the perturbed references among them: a
  /// reference writes no file of its own there.
  const std::filesystem::path& folder() const { return folder_; }

  /// Whether this is the variant called `variant`. Takes literals alone, so that no body asks for
  /// whatever variant it is.
  template <std::size_t length>
  [[nodiscard]] bool is(const char (&variant)[length]) const {
    return is_variant({variant, length - 1});
  }

  /// Whether the cell has `value` on `axis`, chosen or set by its variant.
  [[nodiscard]] bool has(std::string_view axis, std::string_view value = "on") const;
  /// The value on `axis`. Throws std::out_of_range where the cell has none.
  const std::string& text(std::string_view axis) const;
  std::int64_t number(std::string_view axis) const;

  /// Notes the line of the call as the place where the variants part; the report points at it. The
  /// last call counts. A cell is triggered if its body came here and asked for its variant, before
  /// or afterwards: by name, or by a condition that it sets other than the default.
  void at_branch(int line = __builtin_LINE());

  bool is_reference() const { return cell_.role == Role::reference; }

  /// 0 in the reference.
  int rank() const { return is_reference() ? 0 : placement_.rank; }
  /// Ranks of the cell. The reference is one process and computes the shards of all of them.
  int world_size() const { return cell_.world_size; }

  /// The process group; met on the first call.
  ProcessGroup& group();

  /// Seed `base` of the scenario, moved by the run's `--seed`.
  std::uint64_t seed(std::uint64_t base) const { return base + cell_.seed; }

  /// What the model is to be fed instead of `tensor`: `tensor` itself, but in a perturbed reference
  /// every element times 1 + eps or 1 - eps, the sign drawn from perturbation, step and call. To be
  /// called on every input, on each of its elements the same number of times on every run. Whole
  /// numbers such as tokens have no neighbours: in their place the parameters of the module whose
  /// `mean_of_rank_gradients` is being computed are perturbed, for this step's gradients.
  at::Tensor input(const at::Tensor& tensor);

  /// Runs `body(step)` for every step of the cell, from 1.
  void train(const std::function<void(std::int64_t step)>& body);

  /// Notes every parameter's gradient; one that is undefined is noted as such.
  void observe_gradients(Phase phase, const Module& module);
  void observe_parameters(Phase phase, const Module& module);
  void observe_buffers(Phase phase, const Module& module);

  /// The same of a sharded model: notes this rank's shards under the names of the parameters, with
  /// where they lie in them. Every rank holds other parts, so no two are held against each other.
  /// Parameters, and gradients, that are kept whole are noted whole.
  void observe_gradients(Phase phase, ShardedModel& sharded);
  void observe_parameters(Phase phase, ShardedModel& sharded);
  Observer& observer() { return observer_; }

  /// For the reference: leaves the mean over the ranks' gradients in `.grad` of every parameter of
  /// `module`, summed in rank order and divided by the world size once, as DDP promises it.
  /// `loss_of(rank)` computes a rank's loss. Notes each rank's own gradient at `post_backward`,
  /// under the rank as micro-batch and in its `group_of_one`, and in step 1 the parameters, in that
  /// of rank 0.
  void mean_of_rank_gradients(Module& module, const std::function<at::Tensor(int rank)>& loss_of);

  /// Writes everything out; the body has ended. Throws Error when that fails, and when observing or
  /// stating progress failed before.
  void finish();

  /// For a rank that has finished, as its last call: lets go of the group together with the others.
  void leave_group();

  std::int64_t step() const { return observer_.step(); }
  /// Median time of a step without observing; absent before the first has ended.
  std::optional<double> step_seconds() const;
  /// Line of the last branch point; 0: none was reached by a body that asked for its variant.
  int variant_line() const { return was_asked_for_ ? variant_line_ : 0; }
  /// When the last step was begun, by the monotonic clock; absent: none was.
  std::optional<std::int64_t> step_began_ns() const { return step_began_ns_; }
  RendezvousState rendezvous() const { return rendezvous_; }

 private:
  void meet();
  void state_progress() const;
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

  /// A parameter of the module whose mean of gradients is being computed.
  struct WeightBefore {
    at::Tensor parameter;
    at::Tensor value;  ///< before it was perturbed; undefined: it was not
  };

  Cell cell_;
  RankPlacement placement_;
  std::filesystem::path folder_;
  GroupOptions group_options_;
  Observer observer_;
  std::unique_ptr<CollectiveLog> log_;
  std::unique_ptr<ProcessGroup> group_;
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

/// Runs a scenario's body on one rank of `cell` and leaves its files in `folder`, among them its
/// status of how it ended. Returns the process's exit status: 0, or 1 when the body raised; the
/// text is printed and stated.
int run_rank(const std::function<void(Rank&)>& body, const Cell& cell,
             const RankPlacement& placement, const std::filesystem::path& folder,
             const GroupOptions& group);

}  // namespace lockstep
