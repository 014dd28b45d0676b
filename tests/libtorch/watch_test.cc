// `lockstep::Watch` observes the ranks of a loop, all in this process, and the report tells how
// they reduced their gradients, whole or divided.

#include "harness/watch/torch/watch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/command.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Other numbers for each seed.
at::Tensor numbers(std::int64_t seed, at::IntArrayRef shape) {
  return at::sin(at::arange(1, at::numel(at::empty(shape)) + 1, at::kDouble)
                     .mul(0.1 + 0.37 * static_cast<double>(seed)))
      .to(at::kFloat)
      .reshape(shape);
}

class LibtorchWatch : public testing::Test {
 protected:
  struct Rank {
    WatchedParameters parameters = {};
    std::unique_ptr<Watch> watch = {};
  };
  using Ranks = std::vector<Rank>;
  using Reduce = std::function<void(Ranks&)>;

  /// A weight and a bias on each, with the same values.
  static Ranks whole_ranks(std::size_t count) {
    Ranks ranks(count);
    for (Rank& rank : ranks) {
      rank.parameters = {{"weight", numbers(50, {8, 4}).requires_grad_()},
                         {"bias", numbers(51, {8}).requires_grad_()}};
    }
    return ranks;
  }

  /// Gradients of a backward pass, added to those that are there.
  static void compute_gradients(Ranks& ranks, std::int64_t seed) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::int64_t own = seed * 100 + static_cast<std::int64_t>(rank) * 10;
      for (WatchedParameter& parameter : ranks[rank].parameters) {
        at::Tensor& gradient = parameter.tensor.mutable_grad();
        const at::Tensor added = numbers(++own, parameter.tensor.sizes());
        gradient = gradient.defined() ? gradient + added : added;
      }
    }
  }

  /// Gives some ranks the mean of what some of them have.
  static void average(Ranks& ranks, const std::vector<std::size_t>& from,
                      const std::vector<std::size_t>& to) {
    for (std::size_t i = 0; i < ranks[0].parameters.size(); ++i) {
      at::Tensor sum;
      for (const std::size_t rank : from) {
        const at::Tensor own = ranks[rank].parameters[i].tensor.grad();
        sum = sum.defined() ? sum + own : own;
      }
      for (const std::size_t rank : to) {
        ranks[rank].parameters[i].tensor.mutable_grad() =
            sum / static_cast<std::int64_t>(from.size());
      }
    }
  }

  void open(Ranks& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].watch = std::make_unique<Watch>(WatchOptions{
          run_.string(), static_cast<int>(rank), static_cast<int>(ranks.size()), "loop"});
    }
  }

  static void update(Ranks& ranks) {
    for (Rank& rank : ranks) {
      rank.watch->before_step(rank.parameters);
      for (WatchedParameter& parameter : rank.parameters) {
        parameter.tensor.data().sub_(parameter.tensor.grad(), 0.1);
        parameter.tensor.mutable_grad() = at::Tensor();
      }
      rank.watch->after_step(rank.parameters);
    }
  }

  static void close(Ranks& ranks) {
    for (Rank& rank : ranks) rank.watch->close();
  }

  /// Trains for four steps of some backward passes each, and judges them.
  Outcome judged(Ranks ranks, const Reduce& reduce, int passes = 1) {
    open(ranks);
    for (int step = 1; step <= 4; ++step) {
      for (int pass = 1; pass <= passes; ++pass) {
        compute_gradients(ranks, 50 * step + pass);
        for (Rank& rank : ranks) rank.watch->after_backward(rank.parameters);
      }
      reduce(ranks);
      update(ranks);
    }
    close(ranks);
    return reported();
  }

  Outcome reported() const {
    return run_shell(fmt::format("{} report {}", LOCKSTEP_PROGRAM, run_.string()));
  }

  TemporaryFolder folder_;
  std::filesystem::path run_ = folder_.path() / "run";
};

TEST_F(LibtorchWatch, TellsThatGradientsAreReducedOverAllRanks) {
  const Outcome report = judged(whole_ranks(3), [](Ranks& ranks) {
    average(ranks, {0, 1, 2}, {0, 1, 2});
  });
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(
      unwrapped(report.out),
      HasSubstr("gradients of 2 steps were compared with what each rank contributed: 4 of 4"));
}

TEST_F(LibtorchWatch, TellsThatGradientsWereNeverSynchronised) {
  const Outcome report = judged(whole_ranks(3), [](Ranks&) {});
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("FAILED: gradients were never synchronised (2 of 2, from step 1)"));
}

/// They agree, so only the contributions show it.
TEST_F(LibtorchWatch, TellsWhichRankIsLeftOut) {
  const Outcome report = judged(whole_ranks(3), [](Ranks& ranks) {
    average(ranks, {0, 2}, {0, 1, 2});
  });
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("FAILED: gradients lack the contribution of rank 1 (2 of 2, from step 2)"));
}

TEST_F(LibtorchWatch, TellsTheGroupsThatReduce) {
  const Outcome report = judged(whole_ranks(4), [](Ranks& ranks) {
    average(ranks, {0, 1}, {0, 1});
    average(ranks, {2, 3}, {2, 3});
  });
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("gradients are reduced within ranks 0,1 and within ranks 2,3 only"));
}

TEST_F(LibtorchWatch, AddsUpTheBackwardPassesOfAStep) {
  Ranks ranks = whole_ranks(2);
  const Outcome report = judged(
      std::move(ranks),
      [](Ranks& all) {
        average(all, {0, 1}, {0, 1});
      },
      3);
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(
      unwrapped(report.out),
      HasSubstr("gradients of 2 steps were compared with what each rank contributed: 4 of 4"));
}

/// After so many no rank's contribution is known.
TEST_F(LibtorchWatch, DoesNotJudgeStepsOfManyPasses) {
  const Outcome report = judged(
      whole_ranks(2),
      [](Ranks& all) {
        average(all, {0}, {0, 1});
      },
      20);
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), Not(HasSubstr("what each rank contributed")));
}

/// Ranks 0 and 1 hold the first rows of a weight, ranks 2 and 3 the others. The gradient of the
/// norm is a sum over both.
class LibtorchWatchOfParts : public LibtorchWatch {
 protected:
  static Ranks divided_ranks() {
    Ranks ranks(4);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::int64_t half = rank < 2 ? 0 : 1;
      const std::string group = "tp " + std::to_string(half);
      ranks[rank].parameters = {
          {"weight", numbers(60 + half, {4, 4}).requires_grad_(), group, {8, 4}, {4 * half, 0}},
          {"norm", numbers(70, {4}).requires_grad_()}};
    }
    return ranks;
  }

  static void reduce(Ranks& ranks) {
    WatchedParameters& first = ranks[0].parameters;
    average(ranks, {0, 1}, {0, 1});
    average(ranks, {2, 3}, {2, 3});
    const at::Tensor norm = first[1].tensor.grad() + ranks[2].parameters[1].tensor.grad();
    for (Rank& rank : ranks) rank.parameters[1].tensor.mutable_grad() = norm.clone();
  }
};

TEST_F(LibtorchWatchOfParts, ComparesCopiesAlone) {
  const Outcome report = judged(divided_ranks(), reduce);
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("in lockstep: 2 of 2 parameters compared"));
}

TEST_F(LibtorchWatchOfParts, NamesTheCopiesThatDiffer) {
  const Outcome report = judged(divided_ranks(), [](Ranks& ranks) {
    reduce(ranks);
    ranks[3].parameters[0].tensor.mutable_grad()[0][0] += 1;
  });
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              AllOf(HasSubstr("from step 1 on: weight"), HasSubstr("3"), Not(HasSubstr("norm, "))));
}

/// With its parts each rank scales what all hold.
TEST_F(LibtorchWatchOfParts, ThatAreClippedByTheirOwnNormsAreTheCause) {
  const Outcome report = judged(divided_ranks(), [](Ranks& ranks) {
    reduce(ranks);
    for (Rank& rank : ranks) {
      double square = 0;
      for (const WatchedParameter& parameter : rank.parameters) {
        square += std::pow(parameter.tensor.grad().norm().item<double>(), 2);
      }
      for (WatchedParameter& parameter : rank.parameters) {
        parameter.tensor.mutable_grad().mul_(0.01 / std::sqrt(square));
      }
    }
  });
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("gradients differ between ranks that divide the model (1 of 2, from step "
                        "1): each rank clipped its parts of gradients by their own norm"));
}

TEST_F(LibtorchWatchOfParts, DoesNotCompareSummands) {
  Ranks ranks = divided_ranks();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    WatchedParameter& norm = ranks[rank].parameters[1];
    norm.has_summand = true;
    norm.replica_group = rank < 2 ? "tp 0" : "tp 1";
  }
  open(ranks);
  for (int step = 1; step <= 3; ++step) {
    compute_gradients(ranks, step);
    average(ranks, {0, 1}, {0, 1});
    average(ranks, {2, 3}, {2, 3});
    for (Rank& rank : ranks) rank.watch->before_step(rank.parameters);
    reduce(ranks);
    for (Rank& rank : ranks) {
      for (WatchedParameter& parameter : rank.parameters) {
        parameter.tensor.data().sub_(parameter.tensor.grad(), 0.1);
      }
      rank.watch->after_step(rank.parameters);
    }
  }
  close(ranks);
  const Outcome report = reported();
  EXPECT_EQ(report.status, 0) << report.out;
}

TEST_F(LibtorchWatchOfParts, NeedAsManyDimensions) {
  Ranks ranks = divided_ranks();
  ranks[0].parameters[0].offset = {0};
  testing::internal::CaptureStderr();
  const Outcome report = judged(std::move(ranks), reduce);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("rank 0 is no longer observed: The part of weight has 2 dimensions: give "
                        "its global_shape and offset as many."));
  EXPECT_EQ(report.status, 2) << report.out;
}

/// The rows of a weight on two ranks, without anything that both hold.
class LibtorchWatchOfClippedParts : public LibtorchWatch {
 protected:
  using Clip = std::function<double(double own, double whole)>;  ///< the norm to divide by

  static Ranks divided_ranks() {
    Ranks ranks(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const auto half = static_cast<std::int64_t>(rank);
      ranks[rank].parameters = {{"weight",
                                 numbers(60 + half, {4, 4}).requires_grad_(),
                                 "fsdp " + std::to_string(rank),
                                 {8, 4},
                                 {4 * half, 0}}};
    }
    return ranks;
  }

  /// `sizes`: of the gradients of the two ranks in each step.
  Outcome clipped(const std::vector<std::array<double, 2>>& sizes, const Clip& clip) {
    Ranks ranks = divided_ranks();
    open(ranks);
    for (std::size_t step = 0; step < sizes.size(); ++step) {
      compute_gradients(ranks, static_cast<std::int64_t>(50 * step));
      std::array<double, 2> norms{};
      for (std::size_t rank = 0; rank < 2; ++rank) {
        at::Tensor& gradient = ranks[rank].parameters[0].tensor.mutable_grad();
        gradient = gradient * (sizes[step][rank] / gradient.norm().item<double>());
        norms[rank] = sizes[step][rank];
      }
      const double whole = std::hypot(norms[0], norms[1]);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        at::Tensor& gradient = ranks[rank].parameters[0].tensor.mutable_grad();
        gradient = gradient / std::max(1.0, clip(norms[rank], whole));
      }
      update(ranks);
    }
    close(ranks);
    return reported();
  }

  static double by_own(double own, double /*whole*/) { return own; }
  static double by_whole(double /*own*/, double whole) { return whole; }
  static double not_at_all(double /*own*/, double /*whole*/) { return 1; }
};

TEST_F(LibtorchWatchOfClippedParts, ByTheirOwnNormsAreTold) {
  const Outcome report = clipped({{3, 2}, {0.5, 4}, {2, 2.5}, {1.5, 0.8}, {2, 4}}, by_own);
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("FAILED: each rank clipped its parts of gradients by their own norm, 1, "
                        "not by that of the whole (1 of 1, from step 1)"));
  EXPECT_THAT(report.out, HasSubstr("clip-by-local-shard-norm"));
}

TEST_F(LibtorchWatchOfClippedParts, ByTheNormOfTheWholeAreRight) {
  const Outcome report = clipped({{3, 2}, {0.5, 4}, {2, 2.5}, {1.5, 0.8}, {2, 4}}, by_whole);
  EXPECT_EQ(report.status, 0) << report.out;
}

/// That of one rank is that of the whole, where the other has almost none.
TEST_F(LibtorchWatchOfClippedParts, OfOneRankAreTheWhole) {
  const Outcome report =
      clipped({{3, 0.001}, {5, 0.003}, {2, 0.001}, {4, 0.004}, {6, 0.002}, {7, 0.001}, {3, 0.004}},
              by_whole);
  EXPECT_EQ(report.status, 0) << report.out;
}

/// Two steps may have the same norm.
TEST_F(LibtorchWatchOfClippedParts, InFewStepsDecideNothing) {
  const Outcome report = clipped({{3, 2}, {0.5, 4}, {0.7, 0.5}, {0.5, 0.8}, {2, 0.4}}, by_own);
  EXPECT_EQ(report.status, 0) << report.out;
}

/// Of the ranks that hold the first part, the second one tells nothing new.
TEST_F(LibtorchWatchOfClippedParts, OnSeveralRanksCountOnce) {
  Ranks ranks = divided_ranks();
  for (const std::size_t rank : {0, 1}) ranks.push_back({ranks[rank].parameters});
  for (std::size_t rank : {2, 3}) {
    at::Tensor& own = ranks[rank].parameters[0].tensor;
    own = own.detach().clone().requires_grad_();
  }
  open(ranks);
  for (std::int64_t step = 1; step <= 5; ++step) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      at::Tensor& gradient = ranks[rank].parameters[0].tensor.mutable_grad();
      const auto part = static_cast<std::int64_t>(rank % 2);
      gradient = numbers(10 * step + part, {4, 4});
      const double size = part == 0 && step <= 3 ? 1 : 0.1 * static_cast<double>(step);
      gradient = gradient * (size / gradient.norm().item<double>());
    }
    update(ranks);
  }
  close(ranks);
  EXPECT_EQ(reported().status, 0) << reported().out;
}

TEST_F(LibtorchWatchOfClippedParts, ThatHaveAnotherNormInEachStepAreRight) {
  const Outcome report =
      clipped({{3, 2}, {0.5, 4}, {2, 2.5}, {1.5, 0.8}, {2, 4}, {1, 3}, {2, 3}}, not_at_all);
  EXPECT_EQ(report.status, 0) << report.out;
}

TEST_F(LibtorchWatch, RefusesCallsInAWrongOrder) {
  Ranks ranks = whole_ranks(1);
  open(ranks);
  Watch& watch = *ranks[0].watch;
  EXPECT_THROW(watch.after_step(ranks[0].parameters), std::runtime_error);
  compute_gradients(ranks, 1);
  watch.before_step(ranks[0].parameters);
  EXPECT_THROW(watch.after_backward(ranks[0].parameters), std::runtime_error);
  watch.after_step(ranks[0].parameters);
  EXPECT_THROW(watch.after_step(ranks[0].parameters), std::runtime_error);
  watch.after_backward(ranks[0].parameters);
  watch.close();
  EXPECT_THROW(watch.close(), std::runtime_error);
  EXPECT_THROW(watch.after_backward(ranks[0].parameters), std::runtime_error);
}

}  // namespace
}  // namespace lockstep
