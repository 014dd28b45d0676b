#include "harness/comm/mpi/mpi_backend.h"

#include <c10/util/Exception.h>

#include <utility>

#include "harness/comm/mpi/mpi_check.h"
#include "harness/comm/mpi/mpi_tensors.h"

namespace lockstep {

namespace {

using c10d::OpType;

int count_of(const at::Tensor& tensor) { return static_cast<int>(tensor.numel()); }
MPI_Datatype type_of(const at::Tensor& tensor) { return mpi_type(tensor.element_size()); }

/// Reduces the blocks, each of `result`'s size, into `result` in rank order.
void reduce_blocks(const MpiReduction& reduction, const at::Tensor& blocks, int ranks,
                   const at::Tensor& result) {
  const auto* const block = static_cast<const char*>(blocks.data_ptr());
  copy_bytes(result.data_ptr(), block, result.nbytes());
  for (int rank = 1; rank < ranks; ++rank) {
    reduction.combine(block + static_cast<std::size_t>(rank) * result.nbytes(), result.data_ptr(),
                      result.numel());
  }
  reduction.finish(result.data_ptr(), result.numel(), ranks);
}

std::vector<std::int64_t> split_sizes(const at::Tensor& tensor,
                                      const std::vector<std::int64_t>& rows, int ranks) {
  const auto parts = static_cast<std::size_t>(ranks);
  TORCH_CHECK(tensor.dim() > 0, "MPI: an all-to-all takes tensors with a first dimension");
  TORCH_CHECK(rows.empty() ? tensor.size(0) % ranks == 0 : rows.size() == parts,
              "MPI: an all-to-all splits the first dimension, of ", tensor.size(0), ", into ",
              ranks, " equal parts unless it is told a size for each");
  std::vector<std::int64_t> sizes =
      rows.empty() ? std::vector<std::int64_t>(parts, tensor.size(0) / ranks) : rows;
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) sum += size;
  TORCH_CHECK(sum == tensor.size(0), "MPI: the parts of an all-to-all have ", sum,
              " rows, its tensor has ", tensor.size(0));
  for (std::int64_t& size : sizes) size *= sum == 0 ? 0 : tensor.numel() / sum;
  return sizes;
}

/// Counts and displacements of MPI's "v" collectives.
struct Parts {
  explicit Parts(const std::vector<std::int64_t>& sizes) {
    int offset = 0;
    for (const std::int64_t size : sizes) {
      counts.push_back(static_cast<int>(size));
      offsets.push_back(offset);
      offset += static_cast<int>(size);
    }
  }
  std::vector<int> counts;
  std::vector<int> offsets;
};

void check_received(const MPI_Status& status, const at::Tensor& tensor) {
  int received = 0;
  check_mpi(MPI_Get_count(&status, type_of(tensor), &received), "MPI_Get_count");
  TORCH_CHECK_WITH(DistBackendError, received == count_of(tensor), "rank ", status.MPI_SOURCE,
                   " sent ", received, " elements");
}

/// Starts a nonblocking MPI call, which uses `comm` and `request`.
template <class Call>
std::function<MPI_Request(MPI_Comm)> starting(const char* name, Call call) {
  return [name, call = std::move(call)](MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(call(comm, &request), name);
    return request;
  };
}

std::function<MPI_Request(MPI_Comm)> all_gathering(const at::Tensor& input,
                                                   const at::Tensor& output) {
  return starting("MPI_Iallgather", [input, output](MPI_Comm comm, MPI_Request* request) {
    return MPI_Iallgather(input.data_ptr(), count_of(input), type_of(input), output.data_ptr(),
                          count_of(input), type_of(input), comm, request);
  });
}

}  // namespace

MpiBackend::MpiBackend(std::shared_ptr<MpiGroup> group, std::chrono::milliseconds timeout,
                       MpiOrder order)
    : Backend(group->rank(), group->size()),
      group_(std::move(group)),
      options_(c10::make_intrusive<Options>("mpi", timeout)),
      order_(order) {}

MpiBackend::~MpiBackend() { group_->abandon(); }

void MpiBackend::shutdown() { group_->leave(options_->timeout); }

MpiTask MpiBackend::task_of(OpType operation, const at::Tensor& tensor,
                            std::chrono::milliseconds timeout) const {
  MpiTask task;
  task.call.operation = operation;
  if (tensor.defined()) {
    task.call.dtype = tensor.scalar_type();
    task.call.elements = tensor.numel();
  }
  task.limit = timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  return task;
}

MpiBackend::Work MpiBackend::submit(MpiTask task, Tensors outputs) {
  const bool is_message = c10d::isP2POp(task.call.operation);
  task.seq = ++(is_message ? messages_ : collectives_);
  const bool is_empty = task.call.dtype && task.call.elements == 0 && task.call.sent.empty();
  if (is_empty && !is_message) {
    task.start = [](MPI_Comm) { return MPI_REQUEST_NULL; };
    task.finish = nullptr;
  }
  task.work =
      c10::make_intrusive<MpiWork>(rank_, task.call.operation, task.seq, std::move(outputs));
  const Work work = task.work;
  group_->submit(std::move(task));
  return work;
}

MpiBackend::Work MpiBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors);
  MpiTask task = task_of(OpType::BROADCAST, tensor, options.timeout);
  const int root = static_cast<int>(options.rootRank);
  task.call.root = root;
  task.start = starting("MPI_Ibcast", [tensor, root](MPI_Comm comm, MPI_Request* request) {
    return MPI_Ibcast(tensor.data_ptr(), count_of(tensor), type_of(tensor), root, comm, request);
  });
  return submit(std::move(task), tensors);
}

MpiBackend::Work MpiBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return reduce_everywhere(task_of(OpType::ALLREDUCE, only(tensors), options.timeout), tensors,
                           options.reduceOp);
}

MpiBackend::Work MpiBackend::allreduce_coalesced(Tensors& tensors,
                                                 const c10d::AllreduceCoalescedOptions& options) {
  return reduce_everywhere(task_of(OpType::ALLREDUCE_COALESCED, packed(tensors), options.timeout),
                           tensors, options.reduceOp);
}

MpiBackend::Work MpiBackend::reduce_everywhere(MpiTask task, const Tensors& tensors,
                                               const c10d::ReduceOp& op) {
  const at::Tensor own = packed(tensors);
  const MpiReduction reduction(op, own.scalar_type());
  task.call.reduction = reduction.op();
  if (is_in_rank_order(reduction)) {
    const at::Tensor all = room_for(own, size_);
    task.start = starting("MPI_Iallgather", [own, all](MPI_Comm comm, MPI_Request* request) {
      return MPI_Iallgather(own.data_ptr(), count_of(own), type_of(own), all.data_ptr(),
                            count_of(own), type_of(own), comm, request);
    });
    task.finish = [=, ranks = size_](const MPI_Status&) {
      reduce_blocks(reduction, all, ranks, own);
      unpack(own, tensors);
    };
  } else {
    task.start = starting("MPI_Iallreduce", [own, reduction](MPI_Comm comm, MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, own.data_ptr(), count_of(own), type_of(own),
                            reduction.mpi_op(), comm, request);
    });
    task.finish = [=, ranks = size_](const MPI_Status&) {
      reduction.finish(own.data_ptr(), own.numel(), ranks);
      unpack(own, tensors);
    };
  }
  return submit(std::move(task), tensors);
}

MpiBackend::Work MpiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor own = only(tensors);
  const MpiReduction reduction(options.reduceOp, own.scalar_type());
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == rank_;
  MpiTask task = task_of(OpType::REDUCE, own, options.timeout);
  task.call.root = root;
  task.call.reduction = reduction.op();
  if (is_in_rank_order(reduction)) {
    const at::Tensor all = room_for(own, is_root ? size_ : 0);
    task.start = starting("MPI_Igather", [own, all, root](MPI_Comm comm, MPI_Request* request) {
      return MPI_Igather(own.data_ptr(), count_of(own), type_of(own), all.data_ptr(), count_of(own),
                         type_of(own), root, comm, request);
    });
    task.finish = [=, ranks = size_](const MPI_Status&) {
      if (is_root) reduce_blocks(reduction, all, ranks, own);
    };
  } else {
    task.start = starting(
        "MPI_Ireduce", [own, reduction, root, is_root](MPI_Comm comm, MPI_Request* request) {
          return MPI_Ireduce(is_root ? MPI_IN_PLACE : own.data_ptr(), own.data_ptr(), count_of(own),
                             type_of(own), reduction.mpi_op(), root, comm, request);
        });
    task.finish = [=, ranks = size_](const MPI_Status&) {
      if (is_root) reduction.finish(own.data_ptr(), own.numel(), ranks);
    };
  }
  return submit(std::move(task), tensors);
}

MpiBackend::Work MpiBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) {
  const at::Tensor input = only(inputs);
  const Tensors blocks = list_of(outputs, input, size_);
  const at::Tensor all = room_for(input, size_);
  MpiTask task = task_of(OpType::ALLGATHER, input, options.timeout);
  task.start = all_gathering(input, all);
  task.finish = [all, blocks](const MPI_Status&) { unpack(all, blocks); };
  return submit(std::move(task), blocks);
}

MpiBackend::Work MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                             const c10d::AllgatherOptions& options) {
  check_blocks(output, input, size_);
  MpiTask task = task_of(OpType::_ALLGATHER_BASE, input, options.timeout);
  task.start = all_gathering(input, output);
  return submit(std::move(task), {output});
}

MpiBackend::Work MpiBackend::gather(TensorLists& outputs, Tensors& inputs,
                                    const c10d::GatherOptions& options) {
  const at::Tensor input = only(inputs);
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == rank_;
  const Tensors blocks = is_root ? list_of(outputs, input, size_) : Tensors();
  const at::Tensor all = room_for(input, is_root ? size_ : 0);
  MpiTask task = task_of(OpType::GATHER, input, options.timeout);
  task.call.root = root;
  task.start = starting("MPI_Igather", [input, all, root](MPI_Comm comm, MPI_Request* request) {
    return MPI_Igather(input.data_ptr(), count_of(input), type_of(input), all.data_ptr(),
                       count_of(input), type_of(input), root, comm, request);
  });
  task.finish = [all, blocks](const MPI_Status&) { unpack(all, blocks); };
  return submit(std::move(task), blocks);
}

MpiBackend::Work MpiBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                     const c10d::ScatterOptions& options) {
  const at::Tensor output = only(outputs);
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == rank_;
  const at::Tensor all = is_root ? packed(list_of(inputs, output, size_)) : room_for(output, 0);
  MpiTask task = task_of(OpType::SCATTER, output, options.timeout);
  task.call.root = root;
  task.start = starting("MPI_Iscatter", [output, all, root](MPI_Comm comm, MPI_Request* request) {
    return MPI_Iscatter(all.data_ptr(), count_of(output), type_of(output), output.data_ptr(),
                        count_of(output), type_of(output), root, comm, request);
  });
  return submit(std::move(task), outputs);
}

MpiBackend::Work MpiBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                            const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = only(outputs);
  const at::Tensor input = packed(list_of(inputs, output, size_));
  return reduce_and_scatter(task_of(OpType::REDUCE_SCATTER, output, options.timeout), output, input,
                            options.reduceOp);
}

MpiBackend::Work MpiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                  const c10d::ReduceScatterOptions& options) {
  check_blocks(input, output, size_);
  return reduce_and_scatter(task_of(OpType::_REDUCE_SCATTER_BASE, output, options.timeout), output,
                            input, options.reduceOp);
}

MpiBackend::Work MpiBackend::reduce_and_scatter(MpiTask task, at::Tensor output, at::Tensor input,
                                                const c10d::ReduceOp& op) {
  const MpiReduction reduction(op, output.scalar_type());
  task.call.reduction = reduction.op();
  if (is_in_rank_order(reduction)) {
    const at::Tensor blocks = room_for(output, size_);
    task.start =
        starting("MPI_Ialltoall", [input, blocks, output](MPI_Comm comm, MPI_Request* request) {
          return MPI_Ialltoall(input.data_ptr(), count_of(output), type_of(output),
                               blocks.data_ptr(), count_of(output), type_of(output), comm, request);
        });
    task.finish = [=, ranks = size_](const MPI_Status&) {
      reduce_blocks(reduction, blocks, ranks, output);
    };
  } else {
    task.start = starting("MPI_Ireduce_scatter_block", [=](MPI_Comm comm, MPI_Request* request) {
      return MPI_Ireduce_scatter_block(input.data_ptr(), output.data_ptr(), count_of(output),
                                       type_of(output), reduction.mpi_op(), comm, request);
    });
    task.finish = [=, ranks = size_](const MPI_Status&) {
      reduction.finish(output.data_ptr(), output.numel(), ranks);
    };
  }
  return submit(std::move(task), {output});
}

MpiBackend::Work MpiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                           std::vector<int64_t>& output_sizes,
                                           std::vector<int64_t>& input_sizes,
                                           const c10d::AllToAllOptions& options) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(input.scalar_type() == output.scalar_type(),
              "MPI: input and output must have the same dtype");
  MpiTask task = task_of(OpType::ALLTOALL_BASE, input, options.timeout);
  task.call.sent = split_sizes(input, input_sizes, size_);
  task.call.received = split_sizes(output, output_sizes, size_);
  task.start = starting(
      "MPI_Ialltoallv",
      // MPI reads the counts until the call ends.
      [input, output, from = std::make_shared<Parts>(task.call.sent),
       to = std::make_shared<Parts>(task.call.received)](MPI_Comm comm, MPI_Request* request) {
        return MPI_Ialltoallv(input.data_ptr(), from->counts.data(), from->offsets.data(),
                              type_of(input), output.data_ptr(), to->counts.data(),
                              to->offsets.data(), type_of(output), comm, request);
      });
  return submit(std::move(task), {output});
}

MpiBackend::Work MpiBackend::barrier(const c10d::BarrierOptions& options) {
  MpiTask task = task_of(OpType::BARRIER, {}, options.timeout);
  task.start = starting("MPI_Ibarrier", [](MPI_Comm comm, MPI_Request* request) {
    return MPI_Ibarrier(comm, request);
  });
  return submit(std::move(task), {});
}

MpiBackend::Work MpiBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor tensor = only(tensors);
  MpiTask task = task_of(OpType::SEND, tensor, c10d::kUnsetTimeout);
  task.call.root = to;
  task.start = starting("MPI_Isend", [tensor, to, tag](MPI_Comm comm, MPI_Request* request) {
    return MPI_Isend(tensor.data_ptr(), count_of(tensor), type_of(tensor), to, tag, comm, request);
  });
  return submit(std::move(task), tensors);
}

MpiBackend::Work MpiBackend::recv(Tensors& tensors, int from, int tag) {
  MpiTask task = task_of(OpType::RECV, only(tensors), c10d::kUnsetTimeout);
  task.call.root = from;
  return receive(std::move(task), tensors, from, tag);
}

MpiBackend::Work MpiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive(task_of(OpType::RECVANYSOURCE, only(tensors), c10d::kUnsetTimeout), tensors,
                 MPI_ANY_SOURCE, tag);
}

MpiBackend::Work MpiBackend::receive(MpiTask task, const Tensors& tensors, int from, int tag) {
  const at::Tensor tensor = tensors.front();
  task.start = starting("MPI_Irecv", [tensor, from, tag](MPI_Comm comm, MPI_Request* request) {
    return MPI_Irecv(tensor.data_ptr(), count_of(tensor), type_of(tensor), from, tag, comm,
                     request);
  });
  task.finish = [tensor](const MPI_Status& status) { check_received(status, tensor); };
  return submit(std::move(task), tensors);
}

}  // namespace lockstep
