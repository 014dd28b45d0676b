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
  /// Parameters are verified and rank 0's broadcast when it is made, which takes a second copy of
  /// them for that time; false where all ranks are known to have the same.
  bool init_sync = true;
  /// Bytes of a bucket; absent: torch's default of 25 MiB, after a first one of 1 MiB.
  std::optional<std::int64_t> bucket_bytes = {};
};

/// What reduces a bucket instead of the all-reduce: gets the flat bucket of this rank (sum not yet
/// divided), returns what becomes the gradients.
using CommHook = std::function<at::Tensor(ProcessGroup& group, const at::Tensor& bucket)>;

/// What c10d says of a misused reducer, in fragments that stay the same between releases.
namespace ddp_error {
inline constexpr const char* kReadyTwice = "Expected to mark a variable ready only once";
inline constexpr const char* kPriorUnfinished =
    "Expected to have finished reduction in the prior iteration";
inline constexpr const char* kNotBucketView = "is not the expected DDP bucket view";
/// Static graph, and `no_sync` around the first backward: the reduction that was delayed to its end
/// finds a reducer that nobody has armed.
inline constexpr const char* kNotArmed = "expect_autograd_hooks_ INTERNAL ASSERT FAILED";
}  // namespace ddp_error

/// torch.nn.parallel.DistributedDataParallel, in C++: the same calls on the same c10d::Reducer in
/// the same order. Not here: mixed precision, delayed all-reduce hooks of single parameters.
/// A test holds it against Python's.
///
/// Constructing verifies that all ranks have the same parameters and broadcasts rank 0's parameters
/// and buffers, unless told not to; all ranks must do it. What c10d throws is passed on unchanged.
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

  /// What a trainer gets from `ddp.module`: calling it bypasses the wrapper.
  Module& module();

  /// While it lives, backward only accumulates: nothing is synchronised.
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

  /// Once, before the first backward.
  void register_comm_hook(CommHook hook);

  struct State;

  /// torch's `join`, for ranks that have different numbers of batches. All ranks make one before
  /// their first batch and call `finish` behind their last one. Not with buffers that are
  /// broadcast, `find_unused_parameters` or `no_sync`.
  class Join {
   public:
    /// What a gradient is divided by while some ranks have no batch any more: the number of all
    /// ranks, as is torch's default, or of those that have one.
    enum class Divisor { all_ranks, ranks_with_batches };

    explicit Join(DistributedDataParallel& ddp, Divisor divisor = Divisor::all_ranks);

    /// Shadows the collectives of the others with zeros until no rank has a batch any more. Then
    /// the parameters are those of a rank that had the most batches; gradients are as they were.
    void finish();

   private:
    std::shared_ptr<State> state_;
  };

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
