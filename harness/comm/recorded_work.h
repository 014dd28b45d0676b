#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "harness/comm/collective_recorder.h"

namespace lockstep {

/// For works without a future: the waiting thread sees their end.
class RecordedWork : public c10d::Work {
 public:
  RecordedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<CollectiveRecorder> recorder,
               std::uint64_t seq);
  ~RecordedWork() override;

  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override {
    return inner_->getFutureResult();
  }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

 private:
  void leave(CollectiveState state);

  c10::intrusive_ptr<c10d::Work> inner_;
  std::shared_ptr<CollectiveRecorder> recorder_;
  std::uint64_t seq_;
  std::atomic<bool> has_left_{false};
};

}  // namespace lockstep
