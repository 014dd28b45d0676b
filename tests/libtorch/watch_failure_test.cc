// `lockstep::Watch` where it cannot observe: the loop goes on, and no verdict takes the steps that
// were observed for all.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/watch/torch/watch.h"
#include "tests/command.h"
#include "tests/full_disk.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LibtorchWatchFailure : public testing::Test {
 protected:
  Outcome reported() const {
    return run_shell(fmt::format("{} report {}", LOCKSTEP_PROGRAM, run_.string()));
  }

  /// Steps of gradient descent by two ranks with equal samples, each with its parameters.
  void train(Watch& first, Watch& second, int steps) {
    for (int step = 0; step < steps; ++step) {
      for (Watch* const watch : {&first, &second}) {
        WatchedParameters& parameters = watch == &first ? first_ : second_;
        watch->before_step(parameters);
        for (WatchedParameter& parameter : parameters) {
          parameter.tensor.data().sub_(parameter.tensor.grad(), 0.1);
        }
        watch->after_step(parameters);
      }
    }
  }

  static WatchedParameters parameters() {
    WatchedParameters all;
    for (const char* const name : {"a", "b", "c", "d"}) {
      all.push_back({name, at::ones({8}).requires_grad_()});
      all.back().tensor.mutable_grad() = at::full({8}, 0.5);
    }
    return all;
  }

  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_.path() / "run";
  WatchedParameters first_ = parameters();
  WatchedParameters second_ = parameters();
};

TEST_F(LibtorchWatchFailure, OfADiskThatIsFullForAWhileIsNoneOfTheLoop) {
  Watch first({run_.string(), 0, 2});
  Watch second({run_.string(), 1, 2});
  testing::internal::CaptureStderr();
  train(first, second, 2);
  {
    const FullDisk full(1024);
    train(first, second, 2);
  }
  train(first, second, 2);
  first.close();
  second.close();
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* const rank : {"rank 0", "rank 1"}) {
    EXPECT_THAT(said, HasSubstr(fmt::format("lockstep: {} is no longer observed: Cannot write "
                                            "{}/job/rank-",
                                            rank, run_.string())));
  }
  EXPECT_EQ(lines_of(said).size(), 2) << said;
  EXPECT_NEAR(first_[0].tensor[0].item<float>(), 1 - 6 * 0.05, 1e-5);
  const Outcome report = reported();
  EXPECT_EQ(report.status, 2) << report.out;
  EXPECT_THAT(
      unwrapped(report.out),
      AllOf(HasSubstr("UNDECIDED: in lockstep for 2 steps, 1 to 2, but not all of its ranks "
                      "have ended their watch"),
            HasSubstr("note: rank 0: no longer observed: Cannot write ")));
}

TEST_F(LibtorchWatchFailure, AtItsEndLeavesTheJobOpen) {
  std::optional<Watch> first(std::in_place, WatchOptions{run_.string(), 0, 2});
  std::optional<Watch> second(std::in_place, WatchOptions{run_.string(), 1, 2});
  train(*first, *second, 2);
  testing::internal::CaptureStderr();
  std::filesystem::remove_all(run_ / "job");  // so no reason can be noted either
  first.reset();
  second.reset();
  EXPECT_EQ(lines_of(testing::internal::GetCapturedStderr()).size(), 2);
  const Outcome report = reported();
  EXPECT_EQ(report.status, 2) << report.err;
}

/// The folder is the user's choice, unless `lockstep watch` made it.
TEST_F(LibtorchWatchFailure, ToOpenIsToldToTheCallerUnlessTheJobIsWatched) {
  const std::string missing = (folder_.path() / "missing").string();
  setenv("LOCKSTEP_WATCH_FOLDER", missing.c_str(), 1);
  setenv("LOCKSTEP_WATCH_JOB", "job", 1);
  testing::internal::CaptureStderr();
  std::optional<Watch> watched(std::in_place, WatchOptions{run_.string(), 0, 2});
  unsetenv("LOCKSTEP_WATCH_FOLDER");
  unsetenv("LOCKSTEP_WATCH_JOB");
  watched->before_step(first_);
  watched->after_step(first_);
  watched->close();
  EXPECT_THROW(watched->before_step(first_), std::runtime_error);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("lockstep: rank 0 is no longer observed: Cannot "), HasSubstr(missing)));
  write_text(folder_.path() / "file", "");
  EXPECT_THROW(Watch({(folder_.path() / "file").string(), 0, 2}), std::runtime_error);
}

}  // namespace
}  // namespace lockstep
