#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "harness/comm/mpi/mpi_group.h"
#include "harness/comm/mpi/mpi_reduction.h"

namespace lockstep {

/// MPI under c10d, for dense, contiguous CPU tensors of any dtype. Calls return at once and may be
/// made by any thread, one at a time; works have futures. Calls that are invalid on any rank are
/// rejected immediately (c10::Error). Calls that differ between ranks are rejected when they are
/// compared (MpiGroup). A call without elements is checked like all others and calls no MPI
/// function.
///
/// Floating values are reduced in rank order, so every MPI gives the bits of a serial sum. Runs
/// with different MPIs can then be compared; MpiOrder has the alternative.
class MpiBackend : public c10d::Backend {
 public:
  MpiBackend(std::shared_ptr<MpiGroup> group, std::chrono::milliseconds timeout, MpiOrder order);
  /// Neither waits for peers nor finalizes MPI.
  ~MpiBackend() override;

  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(TensorLists& outputs, Tensors& inputs,
                 const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& options) override;
  Work gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, TensorLists& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                     std::vector<int64_t>& input_sizes,
                     const c10d::AllToAllOptions& options) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;

  const std::string getBackendName() const override { return "mpi"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  /// Successful end, called by all ranks: finalizes MPI once all are there, within the time limit
  /// of a collective. mpirun complains about ranks that end without it. No calls are allowed
  /// afterwards.
  void shutdown() override;
  /// Pending calls fail.
  void abort() override { group_->abandon(); }

 private:
  MpiTask task_of(c10d::OpType operation, const at::Tensor& tensor,
                  std::chrono::milliseconds timeout) const;
  Work submit(MpiTask task, Tensors outputs);
  Work reduce_everywhere(MpiTask task, const Tensors& tensors, const c10d::ReduceOp& op);
  Work reduce_and_scatter(MpiTask task, at::Tensor output, at::Tensor input,
                          const c10d::ReduceOp& op);
  Work receive(MpiTask task, const Tensors& tensors, int from, int tag);
  bool is_in_rank_order(const MpiReduction& reduction) const {
    return order_ == MpiOrder::rank_order && reduction.depends_on_order();
  }

  std::shared_ptr<MpiGroup> group_;
  c10::intrusive_ptr<Options> options_;
  MpiOrder order_;
  std::atomic<std::uint64_t> collectives_{0};
  std::atomic<std::uint64_t> messages_{0};
};

}  // namespace lockstep
