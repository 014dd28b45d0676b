#include "harness/comm/aliasing_backend.h"

#include <algorithm>
#include <utility>

#include "harness/sim/virtual_devices.h"

namespace lockstep {
namespace {

/// The tensors of one collective and their aliases.
class Aliases {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    at::Tensor alias = cpu_alias(tensor);
    pairs_.push_back({alias, tensor});
    return alias;
  }

  std::vector<at::Tensor> of(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> aliases;
    for (const at::Tensor& tensor : tensors) aliases.push_back(of(tensor));
    return aliases;
  }

  std::vector<std::vector<at::Tensor>> of(const std::vector<std::vector<at::Tensor>>& lists) {
    std::vector<std::vector<at::Tensor>> aliases;
    for (const std::vector<at::Tensor>& tensors : lists) aliases.push_back(of(tensors));
    return aliases;
  }

  /// A result, which may be a tensor or lists of lists of them, with the tensors that were passed.
  c10::IValue originals(const c10::IValue& value) const {
    if (value.isTensor()) return original(value.toTensor());
    if (!value.isList()) return value;
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& element : value.toListRef()) list.push_back(originals(element));
    return list;
  }

  /// Those that are not the CPU, each once: what a future has to know.
  std::vector<at::Device> devices() const {
    std::vector<at::Device> devices;
    for (const Pair& pair : pairs_) {
      const at::Device device = pair.original.device();
      const bool is_known = std::find(devices.begin(), devices.end(), device) != devices.end();
      if (!device.is_cpu() && !is_known) devices.push_back(device);
    }
    return devices;
  }

 private:
  struct Pair {
    at::Tensor alias, original;
  };

  at::Tensor original(const at::Tensor& alias) const {
    for (const Pair& pair : pairs_) {
      if (pair.alias.is_same(alias)) return pair.original;
    }
    return alias;
  }

  std::vector<Pair> pairs_;
};

using Future = c10::ivalue::Future;

class AliasedWork : public c10d::Work {
 public:
  AliasedWork(c10::intrusive_ptr<c10d::Work> inner, Aliases aliases)
      : Work(-1, inner->retrieveOpType()), inner_(std::move(inner)), aliases_(std::move(aliases)) {
    const c10::intrusive_ptr<Future> done = inner_->getFuture();
    future_ = c10::make_intrusive<Future>(done->elementType(), aliases_.devices());
    done->addCallback([future = future_, aliases = aliases_](Future& ended) {
      if (ended.hasError()) {
        future->setError(ended.exception_ptr());
      } else {
        future->markCompleted(aliases.originals(ended.constValue()));
      }
    });
  }

  bool wait(std::chrono::milliseconds timeout) override { return inner_->wait(timeout); }
  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> results;
    for (const at::Tensor& tensor : inner_->result()) {
      results.push_back(aliases_.originals(tensor).toTensor());
    }
    return results;
  }
  void synchronize() override { inner_->synchronize(); }
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<Future> getFuture() override { return future_; }
  c10::intrusive_ptr<Future> getFutureResult() override { return inner_->getFutureResult(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  Aliases aliases_;
  c10::intrusive_ptr<Future> future_;
};

/// Starts a collective on `call(aliases)`.
template <class Call>
AliasingBackend::Work start(const Call& call) {
  Aliases aliases;
  AliasingBackend::Work work = call(aliases);
  if (!work) return work;
  return c10::make_intrusive<AliasedWork>(std::move(work), std::move(aliases));
}

}  // namespace

AliasingBackend::AliasingBackend(c10::intrusive_ptr<c10d::Backend> inner)
    : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

AliasingBackend::Work AliasingBackend::broadcast(Tensors& tensors,
                                                 const c10d::BroadcastOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors hosts = aliases.of(tensors);
    return inner_->broadcast(hosts, options);
  });
}

AliasingBackend::Work AliasingBackend::allreduce(Tensors& tensors,
                                                 const c10d::AllreduceOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors hosts = aliases.of(tensors);
    return inner_->allreduce(hosts, options);
  });
}

AliasingBackend::Work AliasingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors hosts = aliases.of(tensors);
    return inner_->allreduce_coalesced(hosts, options);
  });
}

AliasingBackend::Work AliasingBackend::reduce(Tensors& tensors,
                                              const c10d::ReduceOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors hosts = aliases.of(tensors);
    return inner_->reduce(hosts, options);
  });
}

AliasingBackend::Work AliasingBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  return start([&](Aliases& aliases) {
    TensorLists host_outputs = aliases.of(outputs);
    Tensors host_inputs = aliases.of(inputs);
    return inner_->allgather(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                       const c10d::AllgatherOptions& options) {
  return start([&](Aliases& aliases) {
    at::Tensor host_output = aliases.of(output);
    at::Tensor host_input = aliases.of(input);
    return inner_->_allgather_base(host_output, host_input, options);
  });
}

AliasingBackend::Work AliasingBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                           const c10d::AllgatherOptions& options) {
  return start([&](Aliases& aliases) {
    TensorLists host_outputs = aliases.of(outputs);
    Tensors host_inputs = aliases.of(inputs);
    return inner_->allgather_coalesced(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors host_outputs = aliases.of(outputs);
    Tensors host_inputs = aliases.of(inputs);
    return inner_->allgather_into_tensor_coalesced(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::gather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::GatherOptions& options) {
  return start([&](Aliases& aliases) {
    TensorLists host_outputs = aliases.of(outputs);
    Tensors host_inputs = aliases.of(inputs);
    return inner_->gather(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                               const c10d::ScatterOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors host_outputs = aliases.of(outputs);
    TensorLists host_inputs = aliases.of(inputs);
    return inner_->scatter(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors host_outputs = aliases.of(outputs);
    TensorLists host_inputs = aliases.of(inputs);
    return inner_->reduce_scatter(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return start([&](Aliases& aliases) {
    at::Tensor host_output = aliases.of(output);
    at::Tensor host_input = aliases.of(input);
    return inner_->_reduce_scatter_base(host_output, host_input, options);
  });
}

AliasingBackend::Work AliasingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors host_outputs = aliases.of(outputs);
    Tensors host_inputs = aliases.of(inputs);
    return inner_->reduce_scatter_tensor_coalesced(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                     std::vector<int64_t>& output_sizes,
                                                     std::vector<int64_t>& input_sizes,
                                                     const c10d::AllToAllOptions& options) {
  return start([&](Aliases& aliases) {
    at::Tensor host_output = aliases.of(output);
    at::Tensor host_input = aliases.of(input);
    return inner_->alltoall_base(host_output, host_input, output_sizes, input_sizes, options);
  });
}

AliasingBackend::Work AliasingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                const c10d::AllToAllOptions& options) {
  return start([&](Aliases& aliases) {
    Tensors host_outputs = aliases.of(outputs);
    Tensors host_inputs = aliases.of(inputs);
    return inner_->alltoall(host_outputs, host_inputs, options);
  });
}

AliasingBackend::Work AliasingBackend::barrier(const c10d::BarrierOptions& options) {
  return inner_->barrier(options);
}

void AliasingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  inner_->monitoredBarrier(options, wait_all_ranks);
}

// Works of point-to-point calls hold no tensors that anybody could ask for.
AliasingBackend::Work AliasingBackend::send(Tensors& tensors, int to, int tag) {
  Tensors hosts = Aliases().of(tensors);
  return inner_->send(hosts, to, tag);
}

AliasingBackend::Work AliasingBackend::recv(Tensors& tensors, int from, int tag) {
  Tensors hosts = Aliases().of(tensors);
  return inner_->recv(hosts, from, tag);
}

AliasingBackend::Work AliasingBackend::recvAnysource(Tensors& tensors, int tag) {
  Tensors hosts = Aliases().of(tensors);
  return inner_->recvAnysource(hosts, tag);
}

void AliasingBackend::setTimeout(std::chrono::milliseconds timeout) { inner_->setTimeout(timeout); }
const std::string AliasingBackend::getBackendName() const { return inner_->getBackendName(); }
c10::intrusive_ptr<AliasingBackend::Options> AliasingBackend::getBackendOptions() {
  return inner_->getBackendOptions();
}
void AliasingBackend::setSequenceNumberForGroup() { inner_->setSequenceNumberForGroup(); }
uint64_t AliasingBackend::getSequenceNumberForGroup() {
  return inner_->getSequenceNumberForGroup();
}
c10d::ErrorType AliasingBackend::getError() { return inner_->getError(); }
void AliasingBackend::abort() { inner_->abort(); }
void AliasingBackend::shutdown() { inner_->shutdown(); }

}  // namespace lockstep
