#include "harness/comm/recording_backend.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "harness/comm/single_collectives.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

Future pending_future(const c10::TypePtr& type) {
  return c10::make_intrusive<c10::ivalue::Future>(type);
}

/// The call returns at once, as in NCCL; its work completes on demand.
class QueuedWork : public c10d::Work {
 public:
  explicit QueuedWork(Future ended) : ended_(std::move(ended)) { called_->markCompleted(); }
  Future getFuture() override { return called_; }
  Future getFutureResult() override { return ended_; }

 private:
  Future called_ = pending_future(c10::NoneType::get());
  Future ended_;
};

class FakeBackend : public c10d::Backend {
 public:
  explicit FakeBackend(std::string name) : Backend(0, 2), name_(std::move(name)) {}
  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return c10::make_intrusive<QueuedWork>(ended);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& /*outputs*/,
                                           std::vector<at::Tensor>& /*inputs*/,
                                           const c10d::AllgatherOptions& /*options*/) override {
    return c10::make_intrusive<QueuedWork>(ended);
  }
  /// Overrides that of releases of torch that have it.
  c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor& output, at::Tensor& input,
                                               const c10d::GatherOptions& /*options*/) {
    output = at::ones({8});
    gathered = input;
    return c10::make_intrusive<QueuedWork>(ended);
  }

  at::Tensor gathered;
  Future ended = pending_future(c10::IntType::get());

 private:
  std::string name_;
};

class Recorded : public testing::Test {
 protected:
  c10::intrusive_ptr<RecordingBackend> recorded(const c10::intrusive_ptr<FakeBackend>& inner) {
    group_->name = "world";
    group_->size = 2;
    return c10::make_intrusive<RecordingBackend>(inner, recorder_, group_);
  }
  /// The last call on record.
  Collective last() const { return read_collective_log(file_).back(); }

 private:
  TemporaryFolder folder_;
  std::filesystem::path file_ = collective_log_file(folder_.path(), 0);
  CollectiveLog log_{file_, 0};
  std::shared_ptr<CollectiveRecorder> recorder_ =
      std::make_shared<CollectiveRecorder>(log_, std::nullopt);
  std::shared_ptr<RecordedGroup> group_ = std::make_shared<RecordedGroup>();
};

TEST_F(Recorded, CallInTheQueueOfAGpuHasNotEnded) {
  for (const c10d::WorkResult result :
       {c10d::WorkResult::SUCCESS, c10d::WorkResult::TIMEOUT, c10d::WorkResult::COMM_ERROR}) {
    const auto inner = c10::make_intrusive<FakeBackend>("nccl");
    const auto backend = recorded(inner);
    std::vector<at::Tensor> tensors{at::ones({4})};
    backend->allreduce(tensors, {});
    EXPECT_EQ(last().state, CollectiveState::entered);
    inner->ended->markCompleted(c10::IValue(static_cast<std::int64_t>(result)));
    EXPECT_EQ(last().state, result == c10d::WorkResult::SUCCESS ? CollectiveState::completed
                                                                : CollectiveState::failed);
  }
}

TEST_F(Recorded, CallOfOtherBackendsEndsWithItsFuture) {
  const auto backend = recorded(c10::make_intrusive<FakeBackend>("other"));
  std::vector<at::Tensor> tensors{at::ones({4})};
  backend->allreduce(tensors, {});
  EXPECT_EQ(last().state, CollectiveState::completed);
}

/// With NCCL ranks may have parts of other sizes; the gathered result is the same.
TEST_F(Recorded, GatheringUnevenPartsIsOfTheSizeOfAll) {
  std::vector<at::Tensor> part{at::ones({4})};
  std::vector<std::vector<at::Tensor>> all{{at::ones({4}), at::ones({6})}};
  recorded(c10::make_intrusive<FakeBackend>("other"))->allgather(all, part, {});
  EXPECT_EQ(last().elements, 4U);
  recorded(c10::make_intrusive<FakeBackend>("nccl"))->allgather(all, part, {});
  EXPECT_EQ(last().elements, 10U);
}

TEST_F(Recorded, GatheringOneTensorPerRankIsRecordedAndPassedOn) {
  if (!HasGatherSingle<c10d::Backend>) GTEST_SKIP() << "this release of torch has no gather_single";
  const auto inner = c10::make_intrusive<FakeBackend>("nccl");
  const auto recording = recorded(inner);
  c10d::Backend& backend = *recording;
  at::Tensor input = at::ones({4});
  at::Tensor output = at::empty({0});
  c10d::GatherOptions options;
  options.rootRank = 1;
  gather_single(backend, output, input, options);
  EXPECT_TRUE(inner->gathered.is_same(input));
  EXPECT_EQ(output.numel(), 8);
  EXPECT_EQ(last().operation, "gather");
  EXPECT_EQ(last().root, 1);
  EXPECT_EQ(last().elements, 4U);
  EXPECT_EQ(last().state, CollectiveState::entered);
}

}  // namespace
}  // namespace lockstep
