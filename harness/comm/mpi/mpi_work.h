#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace lockstep {

/// The work that a caller of the backend waits for. Ended once, by the thread that calls MPI.
class MpiWork : public c10d::Work {
 public:
  MpiWork(int rank, c10d::OpType operation, std::uint64_t seq, std::vector<at::Tensor> outputs);

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return outputs_; }
  std::uint64_t getSequencenumber() const override { return seq_; }
  int sourceRank() const override { return source_; }

  void complete();
  /// Raises c10::Error (DistBackendError) in the waiter.
  void fail(const std::string& reason);
  /// Sender of a message received from any rank. Call before `complete`.
  void set_source(int rank) { source_ = rank; }

 private:
  std::uint64_t seq_;
  std::vector<at::Tensor> outputs_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};

}  // namespace lockstep
