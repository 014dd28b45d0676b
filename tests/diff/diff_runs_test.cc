#include "harness/diff/diff_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "harness/record/process_identity.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

/// A job of one rank and two steps.
class SmallJob {
 public:
  explicit SmallJob(bool has_modules = false) : files_(1), run_(literal_run_of_job(files_, 1)) {
    for (std::int64_t step = 1; step <= 2; ++step) {
      const auto value = static_cast<float>(step);
      files_.add(0, step, "w", {value, 2});
      files_.add(0, step, "w", {value, 3}, {Kind::parameter, Phase::post_step, 0});
      if (!has_modules) continue;
      files_.add(0, step, "layer", {value}, {Kind::module_output, Phase::pre_forward, 0});
    }
    files_.write_as([&](int rank) { return process_identity(record(), rank); });
  }

  JobRecord& record() { return run_.jobs[0]; }
  SideFiles side() { return {record(), files_.folder().parent_path(), files_.folder().string()}; }

 private:
  LiteralEvidence files_;
  RunRecord run_;
};

TEST(DiffOfJobs, TellsInWhichPrecisionEachComputed) {
  SmallJob a, b;
  b.record().precisions = {{"autocast cpu", "bfloat16", 1, {0}}};
  EXPECT_THAT(diff_runs(a.side(), b.side(), {}, {}).precisions,
              ElementsAre("autocast cpu is absent in A and bfloat16 in B"));
}

TEST(DiffOfJobs, TellsOfWhichJobsModulesWereObserved) {
  SmallJob a, b, observed(true);
  const SideFiles of_a = a.side(), of_b = b.side(), second = observed.side();
  const auto observed_sides = [&](const SideFiles& one, const DiffRequest& request) {
    const ComparedPair diff = diff_runs(one, of_b, {}, request);
    return std::array{diff.sides[0].has_modules, diff.sides[1].has_modules};
  };
  EXPECT_THAT(observed_sides(of_a, {}), ElementsAre(false, false));
  EXPECT_THAT(observed_sides(second, {}), ElementsAre(true, false));
  DiffRequest request;
  request.with_modules = {&second, nullptr};
  EXPECT_THAT(observed_sides(of_a, request), ElementsAre(true, false));
  request.with_modules = {nullptr, &second};
  EXPECT_THAT(observed_sides(of_a, request), ElementsAre(false, true));
  request.with_modules = {&of_a, &of_b};
  EXPECT_THAT(observed_sides(of_a, request), ElementsAre(false, false));
}

}  // namespace
}  // namespace lockstep
