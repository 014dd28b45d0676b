#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"

namespace lockstep {

struct DdpOptions {
  bool broadcast_buffers = true;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  /// Outputs go through the sink, which begins what DDP does in a backward pass, only if that pass
  /// reduces: the change that pytorch#166388 proposes. False: as in torch.
  bool sink_needs_sync = false;
  /// Verifies the parameters and broadcasts rank 0's at construction, which temporarily needs a
  /// second copy of them. False if all ranks are known to have the same.
  bool init_sync = true;
  /// Bytes of a bucket; absent: torch's default of 25 MiB, after a first one of 1 MiB.
  std::optional<std::int64_t> bucket_bytes = {};
};

/// Replaces the all-reduce of a bucket: receives this rank's flat bucket (not yet divided) and
/// returns the new gradients.
using CommHook = std::function<at::Tensor(ProcessGroup& group, const at::Tensor& bucket)>;

/// Stable fragments of c10d's error messages about a misused reducer.
namespace ddp_error {
inline constexpr const char* kReadyTwice = "Expected to mark a variable ready only once";
inline constexpr const char* kPriorUnfinished =
    "Expected to have finished reduction in the prior iteration";
inline constexpr const char* kNotBucketView = "is not the expected DDP bucket view";
/// Static graph, and `no_sync` around the first backward: the delayed reduction at its end finds a
/// reducer that was never armed.
inline constexpr const char* kNotArmed = "expect_autograd_hooks_ INTERNAL ASSERT FAILED";
}  // namespace ddp_error

/// torch.nn.parallel.DistributedDataParallel, in C++: the same calls on the same c10d::Reducer in
/// the same order. Not supported: mixed precision, delayed all-reduce hooks of single parameters. A
/// test compares it with Python's.
///
/// The constructor verifies that all ranks have the same parameters and broadcasts rank 0's
/// parameters and buffers, unless disabled; all ranks must call it. Exceptions of c10d are passed
/// on unchanged.
class DistributedDataParallel {
 public:
  DistributedDataParallel(Module& module, ProcessGroup& group, const DdpOptions& options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// The wrapped module's forward between the reducer's preparations. In grad mode, and outside
  /// `no_sync`, it arms the hooks for the next backward.
  at::Tensor forward(const at::Tensor& input);

  /// The same for a forward of any signature and with any number of outputs.
  std::vector<at::Tensor> forward(const std::function<std::vector<at::Tensor>()>& module_forward);

  /// `ddp.module` of a trainer: calling it bypasses the wrapper.
  Module& module();

  /// While it exists, backward only accumulates and does not synchronise.
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& ddp);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DistributedDataParallel& ddp_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(*this); }

  /// Call once, before the first backward.
  void register_comm_hook(CommHook hook);

  struct State;

  /// torch's `join`, for ranks with different numbers of batches. All ranks create one before their
  /// first batch and call `finish` after their last one. Not supported with buffers that are
  /// broadcast, `find_unused_parameters` or `no_sync`.
  class Join {
   public:
    /// Divisor of a gradient while some ranks have run out of batches: the number of all ranks,
    /// torch's default, or of those with batches.
    enum class Divisor { all_ranks, ranks_with_batches };

    explicit Join(DistributedDataParallel& ddp, Divisor divisor = Divisor::all_ranks);

    /// Shadows the collectives of the others with zeros until no rank has a batch left. Then the
    /// parameters are those of a rank with the most batches; gradients are unchanged.
    void finish();

   private:
    std::shared_ptr<State> state_;
  };

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
