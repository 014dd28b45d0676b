#include "harness/comm/aliasing_backend.h"

#include <algorithm>
#include <utility>

#include "harness/comm/future_of.h"
#include "harness/sim/virtual_devices.h"

namespace lockstep {
namespace {

using Future = c10::ivalue::Future;
using Tensors = AliasingBackend::Tensors;
using TensorLists = AliasingBackend::TensorLists;

at::Tensor aliases_of(const at::Tensor& tensor) { return cpu_alias(tensor); }

Tensors aliases_of(const Tensors& tensors) {
  Tensors aliases;
  for (const at::Tensor& tensor : tensors) aliases.push_back(cpu_alias(tensor));
  return aliases;
}

TensorLists aliases_of(const TensorLists& lists) {
  TensorLists aliases;
  for (const Tensors& tensors : lists) aliases.push_back(aliases_of(tensors));
  return aliases;
}

/// The output tensors of a collective, in the caller's form.
struct Outputs {
  explicit Outputs(const at::Tensor& tensor) : Outputs(Tensors{tensor}) {}
  explicit Outputs(const Tensors& tensors) : all(tensors), value(tensors) {}
  explicit Outputs(const TensorLists& lists) : value(lists) {
    for (const Tensors& tensors : lists) all.insert(all.end(), tensors.begin(), tensors.end());
  }

  /// The devices other than the CPU, each once, for a future.
  std::vector<at::Device> devices() const {
    std::vector<at::Device> devices;
    for (const at::Tensor& tensor : all) {
      const at::Device device = tensor.device();
      const bool is_known = std::find(devices.begin(), devices.end(), device) != devices.end();
      if (!device.is_cpu() && !is_known) devices.push_back(device);
    }
    return devices;
  }

  Tensors all;
  c10::IValue value;
};

class AliasedWork : public c10d::Work {
 public:
  AliasedWork(c10::intrusive_ptr<c10d::Work> inner, Outputs outputs)
      : Work(-1, inner->retrieveOpType()), inner_(std::move(inner)), outputs_(std::move(outputs)) {
    const c10::intrusive_ptr<Future> done = future_of(*inner_);
    if (!done) return;
    future_ = c10::make_intrusive<Future>(outputs_.value.type(), outputs_.devices());
    done->addCallback(
        [future = future_, value = outputs_.value](Future& ended) {
          if (ended.hasError()) {
            future->setError(ended.exception_ptr());
          } else {
            future->markCompleted(value);
          }
        },
        /*uses_future=*/false);
  }

  bool wait(std::chrono::milliseconds timeout) override { return inner_->wait(timeout); }
  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return outputs_.all; }
  void synchronize() override { inner_->synchronize(); }
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<Future> getFuture() override {
    return future_ ? future_ : inner_->getFuture();
  }
  c10::intrusive_ptr<Future> getFutureResult() override { return inner_->getFutureResult(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  Outputs outputs_;
  c10::intrusive_ptr<Future> future_;
};

/// The work of a collective of the inner backend, with the caller's tensors.
template <class T>
AliasingBackend::Work aliased(AliasingBackend::Work inner, const T& outputs) {
  if (!inner) return inner;
  return c10::make_intrusive<AliasedWork>(std::move(inner), Outputs(outputs));
}

/// Runs `call` with aliases of its outputs and inputs.
template <class Out, class In, class Call>
AliasingBackend::Work with_aliases(Out& outputs, In& inputs, const Call& call) {
  Out host_outputs = aliases_of(outputs);
  In host_inputs = aliases_of(inputs);
  return aliased(call(host_outputs, host_inputs), outputs);
}

}  // namespace

AliasingBackend::AliasingBackend(c10::intrusive_ptr<c10d::Backend> inner)
    : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

AliasingBackend::Work AliasingBackend::broadcast(Tensors& tensors,
                                                 const c10d::BroadcastOptions& options) {
  Tensors hosts = aliases_of(tensors);
  return aliased(inner_->broadcast(hosts, options), tensors);
}

AliasingBackend::Work AliasingBackend::allreduce(Tensors& tensors,
                                                 const c10d::AllreduceOptions& options) {
  Tensors hosts = aliases_of(tensors);
  return aliased(inner_->allreduce(hosts, options), tensors);
}

AliasingBackend::Work AliasingBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  Tensors hosts = aliases_of(tensors);
  return aliased(inner_->allreduce_coalesced(hosts, options), tensors);
}

AliasingBackend::Work AliasingBackend::reduce(Tensors& tensors,
                                              const c10d::ReduceOptions& options) {
  Tensors hosts = aliases_of(tensors);
  return aliased(inner_->reduce(hosts, options), tensors);
}

AliasingBackend::Work AliasingBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& options) {
  return with_aliases(outputs, inputs,
                      [&](auto& out, auto& in) { return inner_->allgather(out, in, options); });
}

AliasingBackend::Work AliasingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                       const c10d::AllgatherOptions& options) {
  return with_aliases(output, input, [&](auto& out, auto& in) {
    return inner_->_allgather_base(out, in, options);
  });
}

AliasingBackend::Work AliasingBackend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                           const c10d::AllgatherOptions& options) {
  return with_aliases(outputs, inputs, [&](auto& out, auto& in) {
    return inner_->allgather_coalesced(out, in, options);
  });
}

AliasingBackend::Work AliasingBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  return with_aliases(outputs, inputs, [&](auto& out, auto& in) {
    return inner_->allgather_into_tensor_coalesced(out, in, options);
  });
}

AliasingBackend::Work AliasingBackend::gather(TensorLists& outputs, Tensors& inputs,
                                              const c10d::GatherOptions& options) {
  return with_aliases(outputs, inputs,
                      [&](auto& out, auto& in) { return inner_->gather(out, in, options); });
}

AliasingBackend::Work AliasingBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                               const c10d::ScatterOptions& options) {
  return with_aliases(outputs, inputs,
                      [&](auto& out, auto& in) { return inner_->scatter(out, in, options); });
}

AliasingBackend::Work AliasingBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                      const c10d::ReduceScatterOptions& options) {
  return with_aliases(outputs, inputs, [&](auto& out, auto& in) {
    return inner_->reduce_scatter(out, in, options);
  });
}

AliasingBackend::Work AliasingBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  return with_aliases(output, input, [&](auto& out, auto& in) {
    return inner_->_reduce_scatter_base(out, in, options);
  });
}

AliasingBackend::Work AliasingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return with_aliases(outputs, inputs, [&](auto& out, auto& in) {
    return inner_->reduce_scatter_tensor_coalesced(out, in, options);
  });
}

AliasingBackend::Work AliasingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                     std::vector<int64_t>& output_sizes,
                                                     std::vector<int64_t>& input_sizes,
                                                     const c10d::AllToAllOptions& options) {
  return with_aliases(output, input, [&](auto& out, auto& in) {
    return inner_->alltoall_base(out, in, output_sizes, input_sizes, options);
  });
}

AliasingBackend::Work AliasingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                const c10d::AllToAllOptions& options) {
  return with_aliases(outputs, inputs,
                      [&](auto& out, auto& in) { return inner_->alltoall(out, in, options); });
}

AliasingBackend::Work AliasingBackend::barrier(const c10d::BarrierOptions& options) {
  return inner_->barrier(options);
}

void AliasingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  inner_->monitoredBarrier(options, wait_all_ranks);
}

// Works of point-to-point calls hold no tensors.
AliasingBackend::Work AliasingBackend::send(Tensors& tensors, int to, int tag) {
  Tensors hosts = aliases_of(tensors);
  return inner_->send(hosts, to, tag);
}

AliasingBackend::Work AliasingBackend::recv(Tensors& tensors, int from, int tag) {
  Tensors hosts = aliases_of(tensors);
  return inner_->recv(hosts, from, tag);
}

AliasingBackend::Work AliasingBackend::recvAnysource(Tensors& tensors, int tag) {
  Tensors hosts = aliases_of(tensors);
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
