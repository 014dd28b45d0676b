#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/axes.h"
#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/batches.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// How ranks obtain the same gradients.
///   ddp       DistributedDataParallel wraps the model
///   by_hand   the trainer averages each gradient by an all-reduce after backward
///   none      every rank trains alone, or the scenario's hooks reduce
enum class GradientSync { ddp, by_hand, none };

struct TrainingOptions {
  GradientSync sync = GradientSync::ddp;
  DdpOptions ddp = {};
  std::int64_t accumulation = 1;  ///< micro-batches of a step
  bool no_sync = false;           ///< all except the last run inside `no_sync`
  bool prior = false;             ///< parameters have a gradient when the step begins
  std::string optimizer = "sgd";  ///< as `make_optimizer` takes it
  double learning_rate = 0.05;
  /// The reference runs backward once for each micro-batch of a rank, not once for all. If it
  /// computes in a narrower dtype than its gradients, the sums have the dtype of the gradients.
  bool reference_adds_gradients = false;
  bool observes_updates = false;  ///< how far each step moves parameters, for claims about that
};

/// The options of the cell on the axes `wrapper` (ddp, by-hand), `optimizer` and those of
/// `ddp_axes`; defaults on axes that it lacks.
TrainingOptions training_options(const Cell& cell);
TrainingOptions training_options(const Rank& rank);

/// A step as a trainer's calls, in order. The default of each empty hook is given here.
struct StepHooks {
  std::function<void(std::int64_t step)> before = {};  ///< when the step begins
  /// The forward pass of a micro-batch up to its loss (0-dim).
  std::function<at::Tensor(const MicroBatch& batch)> loss = {};
  /// Runs backward for a micro-batch's share of the step's loss. Not in the reference. Empty:
  /// `loss.backward()`.
  std::function<void(const at::Tensor& loss, const MicroBatch& batch)> backward = {};
  /// Receives the loss that a trainer logs, its mean over micro-batches and ranks, before gradients
  /// are observed. Not called if the reference adds gradients. Empty: ranks do not exchange losses.
  std::function<void(const at::Tensor& loss)> logged = {};
  /// The gradients of a step on a rank. False: the rank skips the rest of the step and observes
  /// nothing. Empty: the gradients of its micro-batches, reduced by `Training::backward`.
  std::function<bool(std::int64_t step)> gradients = {};
  /// The gradients of a step in the reference. Empty: the mean over the ranks' micro-batches.
  std::function<void(std::int64_t step)> reference = {};
  /// Between backward and the optimizer, before gradients are observed; not in the reference.
  std::function<void(std::int64_t step)> reduce = {};
  std::function<void(std::int64_t step)> update = {};  ///< empty: the optimizer's step
  std::function<void(std::int64_t step)> after = {};   ///< after parameters were observed
};

/// The training of one rank, or of the reference, which is one process and reduces nothing. All
/// scenarios share this loop. Each step clears gradients, computes them, observes them at
/// `pre_step`, updates, and observes parameters at `post_step`; on devices, also the placement of
/// the model, and updates if it is asked to.
///
/// Keeps references to `rank`, `model` and `sharded`.
class Training {
 public:
  /// `sharded`: trains its shards of `model`, which are on the rank's device; null: the model is
  /// whole on every rank, and is moved to its device unless the body has placed it. Wraps the model
  /// according to `options`.
  Training(Rank& rank, Module& model, TrainingOptions options = {},
           ShardedModel* sharded = nullptr);

  /// The model's forward pass, through DDP if it wraps the model.
  at::Tensor forward(const at::Tensor& input);
  /// The same for a forward of any signature, with one output or several.
  at::Tensor forward(const std::function<at::Tensor()>& module_forward);
  std::vector<at::Tensor> forward(const std::function<std::vector<at::Tensor>()>& module_forward);

  /// Runs backward. Afterwards gradients are the mean over the ranks, unless nothing reduces.
  void backward(const at::Tensor& loss, CallSite site = CallSite::here());

  DistributedDataParallel* ddp() { return ddp_ ? &*ddp_ : nullptr; }  ///< null: not wrapped
  Optimizer& optimizer() { return *optimizer_; }
  void renew_optimizer();  ///< with the options of the first, without its state
  /// Wraps the model anew, with DDP's parameters as they are now. All ranks call it; without DDP it
  /// does nothing.
  void renew_wrapper();
  const TrainingOptions& options() const { return options_; }

  /// Trains all steps of the cell.
  void run(const StepHooks& hooks, CallSite site = CallSite::here());

 private:
  void train_step(const StepHooks& hooks, std::int64_t step, CallSite site);
  bool compute_gradients(const StepHooks& hooks, std::int64_t step, CallSite site);
  void compute_reference(const StepHooks& hooks, std::int64_t step, CallSite site);
  void train_micro_batches(const StepHooks& hooks, std::int64_t step, CallSite site);
  void update(const StepHooks& hooks, std::int64_t step);
  void observe_gradients();
  void observe_parameters();

  Rank& rank_;
  Module& model_;
  ShardedModel* sharded_;
  TrainingOptions options_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<DistributedDataParallel> ddp_;
};

}  // namespace lockstep
