#include "harness/observe/observer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/full_disk.h"
#include "tests/observe/helpers.h"
#include "tests/record/whole_journal.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

static_assert(
    std::is_nothrow_constructible_v<Observer, std::filesystem::path, int, ObservingOptions>);
static_assert(noexcept(std::declval<Observer>().begin_step(1)));
static_assert(noexcept(std::declval<Observer>().begin_micro_batch(1)));
static_assert(noexcept(std::declval<Observer>().observe({}, {}, std::span<const NamedTensor>())));
static_assert(noexcept(std::declval<Observer>().observe({}, {}, std::declval<NamedTensor&>())));
static_assert(noexcept(std::declval<Observer>().finish()));

class ObserverTest : public ::testing::Test {
 protected:
  std::vector<Observation> rows() const {
    return read_journal(journal_file(folder_.path(), 3)).observations;
  }
  bool has_snapshot(std::int64_t step) const {
    return std::filesystem::exists(snapshot_file(folder_.path(), 3, step));
  }

  TemporaryFolder folder_;
};

void observe(Observer& observer, std::int64_t elements = 2) {
  observer.observe(Phase::post_step, Kind::parameter, {"w", at::zeros({elements})});
}

/// Output of `call` on stderr.
std::string said_by(const std::function<void()>& call) {
  testing::internal::CaptureStderr();
  call();
  return testing::internal::GetCapturedStderr();
}

TEST_F(ObserverTest, WritesDownWhatItIsShown) {
  Observer observer(folder_.path(), 3);
  observer.begin_step(2);
  const at::Tensor tensor = random_bits({2, 3}, at::kBFloat16);
  observer.observe(Phase::pre_step, Kind::gradient,
                   std::vector<NamedTensor>{{"b", tensor}, {"a", at::Tensor()}});
  observer.begin_micro_batch(1);
  observer.observe(Phase::pre_forward, Kind::loss, {"loss", at::zeros({})});
  EXPECT_FALSE(has_snapshot(2));
  observer.finish();
  observer.rethrow_failure();
  EXPECT_EQ(observer.step(), 2);
  EXPECT_EQ(observer.rows(), 3);
  EXPECT_GT(observer.time_spent().count(), 0);
  const std::vector<Observation> seen = rows();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].name, "b");
  EXPECT_EQ(seen[0].digest, look(tensor).digest);
  EXPECT_EQ(seen[1].name, "a");
  EXPECT_EQ(snapshot_key(seen[2]), "1/pre_forward/loss/loss");
  EXPECT_EQ(read_safetensors(snapshot_file(folder_.path(), 3, 2)).size(), 2U);
}

/// Throws from the second call on.
class FailingDigester : public CpuDigester {
 public:
  explicit FailingDigester(std::function<void()> raise) : raise_(std::move(raise)) {}

  void digest(std::span<DigestTask> tasks) override {
    if (calls_++ > 0) raise_();
    CpuDigester::digest(tasks);
  }

 private:
  std::function<void()> raise_;
  int calls_ = 0;
};

/// A thrown exception, and the observer's words for it.
struct Failure {
  std::string name;
  std::function<void()> raise;
  std::string words;
  Error::Kind kind;
};

class FailingObserver : public ObserverTest, public testing::WithParamInterface<Failure> {
 protected:
  ObservingOptions failing() const {
    return {.digester = std::make_unique<FailingDigester>(GetParam().raise)};
  }
};

TEST_P(FailingObserver, SaysOnceThatTheRankIsNoLongerObservedAndDoesNothingMore) {
  Observer observer(folder_.path(), 3, failing());
  observer.begin_step(1);
  observe(observer);
  observer.begin_step(2);
  const std::string said = said_by([&] { observe(observer); });
  EXPECT_THAT(said, AllOf(StartsWith("lockstep: rank 3 is no longer observed, from step 2 on: "),
                          HasSubstr(GetParam().words)));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said_by([&] {
                observe(observer);
                observer.begin_micro_batch(1);
                observer.begin_step(3);
                observe(observer);
                observer.finish();
              }),
              IsEmpty());
  EXPECT_EQ(observer.step(), 3) << "training goes on";
  EXPECT_EQ(observer.rows(), 1);
  EXPECT_EQ(rows().size(), 1U);
  EXPECT_TRUE(has_snapshot(1));
  EXPECT_FALSE(has_snapshot(2));
}

TEST_P(FailingObserver, ThrowsItsFailureToWhoeverAsks) {
  Observer observer(folder_.path(), 3, failing());
  observer.begin_step(1);
  observe(observer);
  observer.rethrow_failure();
  observer.begin_step(2);
  said_by([&] { observe(observer); });
  for (int time = 0; time < 2; ++time) {
    EXPECT_THAT(error_of(GetParam().kind, [&] { observer.rethrow_failure(); }),
                HasSubstr(GetParam().words));
  }
}

TEST_P(FailingObserver, LeavesTensorsAndAutogradAsTheyAre) {
  Observer observer(folder_.path(), 3, failing());
  observer.begin_step(1);
  observe(observer);
  observer.begin_step(2);
  const at::Tensor leaf = at::arange(6, at::kFloat).requires_grad_();
  const at::Tensor tensor = leaf.mul(2).reshape({2, 3}).t();
  tensor.sum().backward({}, /*retain_graph=*/true);
  const auto versions = std::pair(leaf._version(), tensor._version());
  const auto uses = std::pair(leaf.use_count(), tensor.use_count());
  const auto grad_fn = tensor.grad_fn();
  said_by([&] {
    observer.observe(Phase::pre_step, Kind::gradient,
                     std::vector<NamedTensor>{{"leaf", leaf}, {"tensor", tensor}});
  });
  EXPECT_EQ(std::pair(leaf._version(), tensor._version()), versions);
  EXPECT_EQ(std::pair(leaf.use_count(), tensor.use_count()), uses) << "none is held on to";
  EXPECT_EQ(tensor.grad_fn(), grad_fn);
  EXPECT_TRUE(at::equal(leaf.detach(), at::arange(6, at::kFloat)));
  EXPECT_TRUE(c10::GradMode::is_enabled());
  tensor.sum().backward();  // the graph is intact
  EXPECT_TRUE(at::equal(leaf.grad(), at::ones({6}) * 4));
}

INSTANTIATE_TEST_SUITE_P(
    Any, FailingObserver,
    testing::Values(Failure{"Error",
                            [] { throw unwritable("rank-3.csv", "No space left on device"); },
                            "No space left on device", Error::Kind::usage},
                    Failure{"StdException",
                            [] { throw std::runtime_error("planted\nof two lines"); }, "planted",
                            Error::Kind::internal},
                    Failure{"TorchError", [] { TORCH_CHECK(false, "planted by torch"); },
                            "planted by torch", Error::Kind::internal},
                    Failure{"BadAlloc", [] { throw std::bad_alloc(); }, "not enough memory",
                            Error::Kind::machine},
                    Failure{"Int", [] { throw 7; }, "not a std::exception", Error::Kind::internal}),
    [](const auto& parameter) { return parameter.param.name; });

TEST_F(ObserverTest, WithoutAFolderSaysThatTheRankIsNotObserved) {
  const std::filesystem::path nowhere = folder_.path() / "nowhere";
  std::optional<Observer> observer;
  const std::string said = said_by([&] {
    observer.emplace(nowhere, 3);
    observer->begin_step(1);
    observe(*observer);
    observer->finish();
  });
  EXPECT_THAT(said, ContainsRegex("^lockstep: rank 3 is not observed: [^\n]*rank-3.csv[^\n]*\n$"));
  EXPECT_EQ(observer->step(), 1);
  EXPECT_EQ(observer->rows(), 0);
  EXPECT_THAT(error_of(Error::Kind::usage, [&] { observer->rethrow_failure(); }),
              HasSubstr("rank-3.csv"));
}

TEST_F(ObserverTest, LeavesAJournalThatIsThereAsItIs) {
  Observer first(folder_.path(), 3);
  first.begin_step(1);
  observe(first);
  const std::string said = said_by([&] {
    Observer second(folder_.path(), 3);
    second.begin_step(1);
    observe(second);
    EXPECT_THAT(error_of(Error::Kind::usage, [&] { second.rethrow_failure(); }),
                HasSubstr("rank-3.csv"));
  });
  EXPECT_THAT(said, HasSubstr("rank 3 is not observed"));
  EXPECT_EQ(rows().size(), 1U);
}

TEST_F(ObserverTest, SaysThatItsFolderVanished) {
  const std::filesystem::path inner = folder_.path() / "cell";
  std::filesystem::create_directory(inner);
  Observer observer(inner, 3);
  observer.begin_step(1);
  observe(observer);
  std::filesystem::remove_all(inner);
  EXPECT_THAT(said_by([&] { observer.begin_step(2); }),
              AllOf(HasSubstr("from step 1 on: "), HasSubstr("rank-3.step-1.safetensors")))
      << "what was kept of step 1 is lost";
  EXPECT_EQ(observer.step(), 2);
}

TEST_F(ObserverTest, StaysSilentWhereTheDiskHasRoomAgain) {
  Observer observer(folder_.path(), 3);
  observer.begin_step(1);
  observe(observer, 10'000);
  {
    const FullDisk full(4'096);
    EXPECT_THAT(said_by([&] { observer.finish(); }), HasSubstr("rank-3.step-1.safetensors"));
  }
  EXPECT_THAT(said_by([&] {
                observer.begin_step(2);
                observe(observer);
                observer.finish();
              }),
              IsEmpty());
  EXPECT_EQ(rows().size(), 1U) << "steps without a gap, or none";
}

TEST_F(ObserverTest, CountsTheRowsThatAFullDiskHas) {
  Observer observer(folder_.path(), 3);
  observer.begin_step(1);
  const std::vector<NamedTensor> tensors{{"a", at::zeros({2})}, {"b", at::zeros({2})}};
  {
    const FullDisk full(4'096);
    said_by([&] {
      for (std::int64_t step = 2; step < 100; ++step) {
        observer.begin_step(step);
        observer.observe(Phase::post_step, Kind::parameter, tensors);
      }
    });
  }
  EXPECT_EQ(observer.step(), 99);
  EXPECT_GT(observer.rows(), 0);
  EXPECT_EQ(observer.rows(), static_cast<std::int64_t>(rows().size()));
  EXPECT_NE(error_of(Error::Kind::usage, [&] { observer.rethrow_failure(); }), "no error");
}

TEST_F(ObserverTest, WritesWhatWasSeenBeforeAFailure) {
  Observer observer(folder_.path(), 3);
  observer.begin_step(1);
  observe(observer);
  EXPECT_THAT(said_by([&] { observe(observer); }),
              HasSubstr("'0/post_step/parameter/w' observed twice in step 1"));
  EXPECT_EQ(rows().size(), 1U);
  EXPECT_EQ(read_safetensors(snapshot_file(folder_.path(), 3, 1)).size(), 1U);
}

TEST_F(ObserverTest, IsNoLongerThereForStepsThatDoNotCountUp) {
  Observer observer(folder_.path(), 3);
  observer.begin_step(2);
  EXPECT_THAT(said_by([&] { observer.begin_step(2); }), HasSubstr("step 2 begun after step 2"));
  EXPECT_EQ(observer.step(), 2);
}

}  // namespace
}  // namespace lockstep
